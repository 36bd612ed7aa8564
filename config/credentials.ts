/**
 * A text without the users and passwords of the addresses in it.
 * @param instead stands in their place, before the `@`; default: the `@` goes as well
 */
export function withoutCredentials(text: string, instead?: string): string {
  const replacement = instead === undefined ? '' : `${instead}@`;
  // Up to the last `@` before the path: a password may have one.
  return text.replaceAll(/(?<=[a-z]:\/\/)[^/?#\s]*@/gi, () => replacement);
}
