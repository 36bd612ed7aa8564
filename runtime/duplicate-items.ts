/**
 * Finds lists with many duplicates. TypeBox reports duplicates (`uniqueItems`) in time that grows
 * with the square of their number. This module therefore reports such lists instead of TypeBox.
 */

/** Number of duplicates that TypeBox can report quickly. */
const fewDuplicates = 1_000;

/** Whether a schema has the keyword `uniqueItems` at any place. */
export function requiresUniqueItems(schema: unknown): boolean {
  return JSON.stringify(schema)?.includes('"uniqueItems":true') === true;
}

/**
 * Returns the path of the first list with more than 1,000 duplicates, for example `/minions`.
 * Objects in a list are not compared.
 */
export function pathOfManyDuplicates(value: unknown, path = ''): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) {
    const simple = value.filter((item) => typeof item !== 'object' || item === null);
    if (simple.length - new Set(simple).size > fewDuplicates) return path;
  }
  for (const [name, item] of Object.entries(value)) {
    const found = pathOfManyDuplicates(item, `${path}/${name}`);
    if (found !== undefined) return found;
  }
  return undefined;
}
