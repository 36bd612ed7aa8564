/** Returns the seed in the text of an nkey file: the first line that is not a comment. */
export function nkeySeedOf(text: string): string {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.find((line) => line !== '' && !line.startsWith('#')) ?? '';
}
