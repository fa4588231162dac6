# ruff: noqa
# fmt: off
#@ convolution_of_other_channels
layer = wy.nn.Conv2d(hid, out, kernel_size=3)
layer(pictures)  # error: [arg-type] Argument 1 to "__call__" of "Convolution2d" has incompatible type
#@ convolutions_that_do_not_follow
first, second = wy.nn.Conv2d(colours, hid, 3), wy.nn.Conv2d(emb, out, 3)
second(first(pictures))  # error: [arg-type] Argument 1 to "__call__" of "Convolution2d" has incompatible type
#@ convolution_of_rows
wy.nn.Conv2d(in_, out, 3)(x)  # error: [arg-type] Argument 1 to "__call__" of "Convolution2d" has incompatible type
#@ convolution_of_other_results
r: wy.Tensor[Batch, Out, Height, Width] = wy.nn.Conv2d(colours, hid, 3, padding="same")(pictures)  # error: [assignment] Incompatible types in assignment
#@ convolution_without_a_window
wy.nn.Conv2d(colours, hid)  # error: [call-arg] Missing positional argument "kernel_size" in call to "Conv2d"
#@ convolution_of_a_channel_by_name
wy.nn.Conv2d("colours", hid, 3)  # error: [arg-type] Argument 1 to "Conv2d" has incompatible type "str"; expected "Dim | Unnamed[Dim]"
#@ convolution_with_a_misspelled_option
wy.nn.Conv2d(colours, hid, 3, dilatoin=2)  # error: [call-arg] Unexpected keyword argument "dilatoin" for "Conv2d"; did you mean "dilation"?
#@ convolution_with_unknown_padding
wy.nn.Conv2d(colours, hid, 3, padding="full")  # error: [arg-type] Argument "padding" to "Conv2d" has incompatible type
#@ transposed_convolution_of_other_channels
wy.nn.ConvTranspose2d(hid, colours, 2)(pictures)  # error: [arg-type] Argument 1 to "__call__" of "Convolution2d" has incompatible type
#@ pooling_of_rows
wy.nn.MaxPool2d(2)(x)  # error: [arg-type] Argument 1 to "__call__" of "Pooling2d" has incompatible type
#@ batch_normalization_of_other_channels
wy.nn.BatchNorm2d(hid)(pictures)  # error: [arg-type] Argument 1 to "__call__" of "BatchNorm2d" has incompatible type
#@ group_normalization_of_other_channels
wy.nn.GroupNorm(1, hid)(pictures)  # error: [arg-type] Argument 1 to "__call__" of "GroupNorm" has incompatible type
#@ interpolation_in_an_unknown_mode
wy.nn.interpolate(pictures, 4, mode="cubic")  # error: [call-overload] No overload variant of "interpolate" matches argument types
#@ convolution_of_a_sequence_with_channels_last
steps = wy.Input(dims=(batch, time, in_))
wy.nn.Conv1d(in_, out, 3)(steps)  # error: [arg-type] Argument 1 to "__call__" of "Convolution1d" has incompatible type "Input[tuple[Batch, Time, In]]"; expected "Node[Any, tuple[Batch, In, Any]]"
#@ convolution_of_pictures_with_channels_last
last = wy.Input(dims=(batch, tall, broad, colours))
wy.nn.Conv2d(colours, hid, 3)(last)  # error: [arg-type] Argument 1 to "__call__" of "Convolution2d" has incompatible type "Input[tuple[Batch, Height, Width, Colours]]"; expected "Node[Any, tuple[Batch,
#@ convolution_with_misspelled_padding
wy.nn.Conv2d(colours, hid, 3, padding="smae")  # error: [arg-type] Argument "padding" to "Conv2d" has incompatible type "Literal['smae']"; expected "Literal['same', 'valid'] | int | Sequence[int | tuple[int, int]]"
#@ convolution_with_a_window_in_part
wy.nn.Conv2d(colours, hid, 2.5)  # error: [arg-type] Argument 3 to "Conv2d" has incompatible type "float"; expected "int | Sequence[int]"
#@ convolution_with_a_stride_by_name
wy.nn.Conv2d(colours, hid, 3, stride="2")  # error: [arg-type] Argument "stride" to "Conv2d" has incompatible type "str"; expected "int | Sequence[int]"
#@ convolution_with_groups_in_a_pair
wy.nn.Conv2d(colours, hid, 3, groups=(1, 1))  # error: [arg-type] Argument "groups" to "Conv2d" has incompatible type "tuple[int, int]"; expected "int"
#@ convolution_in_pytorchs_padding_mode
wy.nn.Conv2d(colours, hid, 3, padding_mode="reflect")  # error: [call-arg] Unexpected keyword argument "padding_mode" for "Conv2d"
#@ convolution_of_a_class
wy.nn.Conv2d(Colours, hid, 3)  # error: [arg-type] Argument 1 to "Conv2d" has incompatible type "type[Colours]"; expected "Dim | Unnamed[Dim]"
#@ convolution_bias_of_other_channels
bias: wy.Parameter[tuple[Out]] | None = wy.nn.Conv2d(colours, hid, 3).bias  # error: [assignment] Incompatible types in assignment (expression has type "Parameter[tuple[Hid]] | None", variable has type "Parameter[tuple[Out]] | None")
#@ convolution_plus_its_input
wy.nn.Conv2d(colours, hid, 3, padding="same")(pictures) + pictures  # error: [operator] Unsupported operand types for + ("Node[Any, tuple[Batch, Hid, Any, Any]]" and "Input[tuple[Batch, Colours, Height, Width]]")
#@ convolution_then_a_layer_without_flattening
h = wy.nn.Conv2d(colours, hid, 3)(pictures)
wy.nn.Linear(hid, out)(h.mean(axis=(-2, -1)) @ w2)  # error: [arg-type] Argument 1 to "__call__" of "Linear" has incompatible type "MatMul[Any, Parameter[tuple[Hid, Out]], tuple[Batch, Out]]"; expected "Node[Any,
#@ flattened_rows_of_another_rank
r: wy.Tensor[Batch] = wy.nn.Flatten()(pictures)  # error: [assignment] Incompatible types in assignment (expression has type "Node[Any, tuple[Batch, Any]]", variable has type "Node[Any, tuple[Batch]]")
#@ convolution_of_volumes_as_pictures
volumes = wy.Input(dims=(batch, colours, wy.any_dim(4), tall, broad))
wy.nn.Conv2d(colours, hid, 3)(volumes)  # error: [arg-type] Argument 1 to "__call__" of "Convolution2d" has incompatible type "Input[tuple[Batch, Colours, Any, Height, Width]]"; expected "Node[Any,
#@ convolution_function_without_a_weight
wy.nn.conv2d(pictures)  # error: [call-arg] Missing positional argument "weight" in call to "conv2d"
#@ upsampling_in_an_unknown_mode
wy.nn.Upsample(scale_factor=2, mode="cubic")  # error: [arg-type] Argument "mode" to "Upsample" has incompatible type "Literal['cubic']"; expected "Literal['nearest', 'linear', 'bilinear', 'trilinear']"
