const named = 10;

/** Some names of many, for one line. */
export function list(names: readonly string[]): string {
  const more = names.length > named ? ` and ${names.length - named} more` : '';
  return names.slice(0, named).join(', ') + more;
}
