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
