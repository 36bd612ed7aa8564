/** Escapes user names in filters [RFC 4515] and distinguished names [RFC 4514]. */

const placeholder = /\{\{\s*username\s*\}\}/g;

/** A filter in which `{{ username }}` stands for a name: nothing in the name means anything. */
export function fillFilter(template: string, username: string): string {
  return wholeFilter(template).replace(placeholder, () => escapeFilter(username));
}

/** Adds the outer parentheses, which OpenLDAP's library, and so Salt, does without. */
function wholeFilter(template: string): string {
  const text = template.trim();
  return text === '' || text.startsWith('(') ? text : `(${text})`;
}

/** The attributes that a filter compares with `{{ username }}`, in its order. */
export function attributesOfFilter(template: string): string[] {
  const comparison = /\(\s*([^()=~<>:\s]+)\s*=\s*\{\{\s*username\s*\}\}\s*\)/g;
  return [...wholeFilter(template).matchAll(comparison)].map(([, attribute = '']) => attribute);
}

/** A name in which `{{ username }}` stands for another one. */
export function fillName(template: string, username: string): string {
  return template.replace(placeholder, () => escapeName(username));
}

/** Text as the value of a filter. */
export function escapeFilter(text: string): string {
  return text.replace(/[\0()*\\]/g, (it) => `\\${it.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** Text as the value in a distinguished name. */
export function escapeName(text: string): string {
  return text
    .replace(/[\\"+,;<=>]/g, (it) => `\\${it}`)
    .replace(/^[ #]/, (it) => `\\${it}`)
    .replace(/ $/, '\\ ');
}
