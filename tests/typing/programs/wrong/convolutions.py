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
