"""Arrays in; a picture or figure and the sentence that says what it shows out."""
