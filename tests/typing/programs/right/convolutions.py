# ruff: noqa
# fmt: off
#@ convolution_of_named_channels
layer = wy.nn.Conv2d(colours, hid, kernel_size=3, padding="same")
r: wy.Tensor[Batch, Hid, Height, Width] = layer(pictures)
reveal_type(layer(pictures))  # reveals: Node[Any, tuple[Batch, Hid, Any, Any]]
#@ convolutions_in_a_module
class Network(wy.nn.Module):
    def __init__(self) -> None:
        self.first = wy.nn.Conv2d(colours, hid, 3, stride=2, padding=1)
        self.second = wy.nn.Conv2d(hid, emb, 3, padding=(1, 0), groups=1)
        self.pool = wy.nn.AdaptiveAvgPool2d(1)
        self.output = wy.nn.Linear(12, out)
    def __call__(self, x: wy.Tensor[Batch, Colours, Height, Width]) -> wy.Tensor[Batch, Out]:
        h = self.second(self.first(x).relu()).relu()
        return self.output(wy.nn.Flatten()(self.pool(h)))
r: wy.Tensor[Batch, Out] = Network()(pictures)
#@ convolution_of_plain_channels
first, second = wy.nn.Conv2d(3, 16, 3, padding="same"), wy.nn.Conv2d(16, hid, 3)
r: wy.Tensor[Batch, Hid, Any, Any] = second(first(pictures).relu())
#@ pooling_keeps_channels
reveal_type(wy.nn.max_pool2d(pictures, 2))  # reveals: Node[Any, tuple[Batch, Colours, Any, Any]]
r1: wy.Tensor[Batch, Colours, Any, Any] = wy.nn.AvgPool2d(2, padding=((1, 0), (0, 1)))(pictures)
r2: wy.Tensor[Batch, Colours, Height, Width] = wy.nn.Dropout2d(0.5)(pictures)
#@ transposed_convolution_back_to_channels
down, up = wy.nn.Conv2d(colours, hid, 2, stride=2), wy.nn.ConvTranspose2d(hid, colours, 2, stride=2)
r: wy.Tensor[Batch, Colours, Height, Width] = up(down(pictures))
#@ convolution_of_a_sequence
steps = wy.Input(numbers(4, 7, 5), dims=(batch, in_, time))
r: wy.Tensor[Batch, Out, Time] = wy.nn.Conv1d(in_, out, 3, padding=((2, 0),))(steps)
#@ convolution_as_a_function
kernel = wy.Parameter(numbers(11, 3, 3, 3), dims=(hid, colours, 3, 3))
r: wy.Tensor[Batch, Hid, Any, Any] = wy.nn.conv2d(pictures, kernel, stride=(2, 1), padding="valid")
#@ normalization_of_channels
r1: wy.Tensor[Batch, Colours, Height, Width] = wy.nn.GroupNorm(3, colours)(pictures)
r2: wy.Tensor[Batch, Colours, Height, Width] = wy.nn.InstanceNorm(colours, affine=True)(pictures)
r8: wy.Tensor[Batch, Colours, Height, Width] = wy.nn.BatchNorm2d(colours, momentum=None)(pictures)
r9: wy.Tensor[Batch, Colours, Height, Width] = wy.nn.InstanceNorm2d(colours)(pictures)
r3: wy.Tensor[Batch, Colours, Height, Width] = wy.nn.group_norm(pictures, 1)
#@ convolution_of_channels_last_transposed
steps = wy.Input(numbers(4, 5, 7), dims=(batch, time, in_))
r: wy.Tensor[Batch, Out, Any] = wy.nn.Conv1d(in_, out, 3, padding="same")(steps.transpose(0, 2, 1))
#@ convolution_in_groups
layer = wy.nn.Conv2d(colours, colours, 3, padding="same", groups=3, bias=False)
r: wy.Tensor[Batch, Colours, Height, Width] = layer(pictures)
weight: wy.Parameter = layer.weight
#@ residual_block_of_convolutions
class Residual(wy.nn.Module, Generic[D]):
    def __init__(self, channels: D) -> None:
        self.first = wy.nn.Conv2d(channels, channels, 3, padding="same")
        self.norm = wy.nn.BatchNorm2d(channels)
        self.second = wy.nn.Conv2d(channels, channels, 3, padding="same")
    def __call__(self, x: wy.Tensor[B, D, M, N]) -> wy.Tensor[B, D, M, N]:
        return x + self.second(self.norm(self.first(x)).relu())
r: wy.Tensor[Batch, Colours, Height, Width] = Residual(colours)(pictures)
#@ convolution_pooled_to_one
h = wy.nn.Conv2d(colours, hid, 3)(pictures).relu()
r: wy.Tensor[Batch, Hid] = h.mean(axis=(-2, -1))
#@ convolution_over_volumes
volumes = wy.Input(numbers(4, 3, 4, 8, 6), dims=(batch, colours, wy.any_dim(4), tall, broad))
reveal_type(wy.nn.Conv3d(colours, hid, 3, padding="same")(volumes))  # reveals: Node[Any, tuple[Batch, Hid, Any, Any, Any]]
#@ convolution_with_a_mask
seen = wy.Input(np.ones((4, 3, 8, 6), np.float32), dims=(batch, colours, tall, broad))
r: wy.Tensor[Batch, Hid, Any, Any] = wy.nn.Conv2d(colours, hid, 3)(wy.where(seen > 0.5, pictures, 0.0))
#@ two_dimensional_pools
r1: wy.Tensor[Batch, Colours, Any, Any] = wy.nn.MaxPool2d(2)(pictures)
r2: wy.Tensor[Batch, Colours, Any, Any] = wy.nn.AdaptiveAvgPool2d((2, 1))(pictures)
