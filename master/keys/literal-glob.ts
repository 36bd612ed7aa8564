/** An id as a glob that means this id and nothing else. */
export function literalGlob(id: string): string {
  return id.replace(/[*?[]/g, '[$&]');
}
