/**
 * This module inserts user names into LDAP filters [RFC 4515] and distinguished names [RFC 4514],
 * and escapes the names.
 */

const placeholder = /\{\{\s*username\s*\}\}/g;

/** Fills a filter template. The name replaces `{{ username }}` and is escaped. */
export function fillFilter(template: string, username: string): string {
  return wholeFilter(template).replace(placeholder, () => escapeFilter(username));
}

/**
 * Adds the outer parentheses to an LDAP filter if they are missing. OpenLDAP's library, and
 * therefore Salt, accepts filters without them.
 */
function wholeFilter(template: string): string {
  const text = template.trim();
  return text === '' || text.startsWith('(') ? text : `(${text})`;
}

/** Returns the attributes that a filter compares with `{{ username }}`, in order. */
export function attributesOfFilter(template: string): string[] {
  const comparison = /\(\s*([^()=~<>:\s]+)\s*=\s*\{\{\s*username\s*\}\}\s*\)/g;
  return [...wholeFilter(template).matchAll(comparison)].map(([, attribute = '']) => attribute);
}

/** Fills a template of a distinguished name. The escaped user name replaces `{{ username }}`. */
export function fillName(template: string, username: string): string {
  return template.replace(placeholder, () => escapeName(username));
}

/** Escapes text for use as a value in a filter. */
export function escapeFilter(text: string): string {
  return text.replace(/[\0()*\\]/g, (it) => `\\${it.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** Escapes text for use as a value in a distinguished name. */
export function escapeName(text: string): string {
  return text
    .replace(/[\\"+,;<=>]/g, (it) => `\\${it}`)
    .replace(/^[ #]/, (it) => `\\${it}`)
    .replace(/ $/, '\\ ');
}
