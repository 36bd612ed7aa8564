/**
 * Removes user names and passwords from the addresses in a text.
 * @param instead - text to put before the `@`; by default the `@` is removed too
 */
export function withoutCredentials(text: string, instead?: string): string {
  const replacement = instead === undefined ? '' : `${instead}@`;
  // Match up to the last `@` before the path, because a password may contain one.
  return text.replaceAll(/(?<=[a-z]:\/\/)[^/?#\s]*@/gi, () => replacement);
}
