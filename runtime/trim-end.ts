/**
 * Removes a character from the end of a text, as often as it occurs there. Takes linear time. A
 * regular expression such as `/\/+$/` takes quadratic time for a text with many of the characters
 * before its last character.
 */
export function trimEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
}
