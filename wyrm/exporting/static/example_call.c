    {
$arrays
        check($function($arguments), "$function");
$prints
    }
