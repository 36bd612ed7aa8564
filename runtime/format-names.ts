/**
 * Returns the first names of a list as one line of text, with the number of the others.
 * @param most - maximum number of names in the text
 * @param count - length of the whole list, if `names` contains only its beginning
 */
export function formatNames(
  names: readonly string[],
  most: number,
  count: number = names.length,
): string {
  const first = names.slice(0, most);
  const more = count > first.length ? ` and ${count - first.length} more` : '';
  return first.join(', ') + more;
}
