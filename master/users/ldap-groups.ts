import type { Client, Entry } from 'ldapts';
import type { EauthOptions } from '#config';
import { escapeFilter, escapeName, fillFilter } from './ldap-names.ts';

/**
 * Returns the value of the first part of a distinguished name, for example `admins` for
 * `cn=admins,ou=…`.
 */
export function firstValue(name: string): string {
  const [, value = ''] = /^[^=]*=((?:\\.|[^,\\])*)/s.exec(name) ?? [];
  return value
    .replace(/\\([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\(.)/gs, '$1');
}

/** Maximum number of entries that one search for groups returns. */
const maxGroups = 1000;

/**
 * Returns the names of a user's groups. The options select one of three directory layouts, as in
 * Salt: Active Directory, FreeIPA or OpenLDAP [salt/auth/ldap.py groups].
 * @throws ResultCodeError of ldapts
 */
export async function findGroups(
  client: Client,
  username: string,
  options: EauthOptions,
): Promise<readonly string[]> {
  if (options.ldapActivedirectory) return ofActiveDirectory(client, username, options);
  return options.ldapFreeipa
    ? ofFreeIpa(client, username, options)
    : ofOpenLdap(client, username, options);
}

async function ofActiveDirectory(
  client: Client,
  username: string,
  { ldapAccountAttribute, ldapPersontype, ldapGroupclass, ldapBasedn }: EauthOptions,
): Promise<string[]> {
  const name = `(${ldapAccountAttribute}=${escapeFilter(username)})`;
  const isPerson = `(&${name}(objectClass=${ldapPersontype}))`;
  const [person, ...more] = await search(client, ldapBasedn, isPerson, ['1.1']);
  if (person === undefined || more.length > 0) return [];
  const isMember = `(&(member=${escapeFilter(person.dn)})(objectClass=${ldapGroupclass}))`;
  const groups = await search(client, ldapBasedn, isMember, ['cn']);
  return groups.flatMap((group) => valuesOf(group, 'cn').slice(0, 1));
}

async function ofFreeIpa(
  client: Client,
  username: string,
  options: EauthOptions,
): Promise<string[]> {
  const { ldapAccountAttribute, ldapGroupAttribute, ldapGroupBasedn, ldapGroupFilter } = options;
  if (ldapGroupFilter === null) return [];
  const groups = await search(
    client,
    ldapGroupBasedn ?? options.ldapBasedn,
    fillFilter(ldapGroupFilter, username),
    [ldapAccountAttribute, ldapGroupAttribute],
  );
  const names = [username, escapeName(username)];
  return groups
    .filter((group) =>
      [ldapAccountAttribute, ldapGroupAttribute]
        .flatMap((attribute) => valuesOf(group, attribute))
        .some((member) => names.includes(member) || firstValue(member) === username),
    )
    .map((group) => firstValue(group.dn));
}

/**
 * Returns the groups of a user in an OpenLDAP directory: the groups whose entry lists the user, and
 * the groups that the user's own entry lists.
 */
async function ofOpenLdap(
  client: Client,
  username: string,
  options: EauthOptions,
): Promise<string[]> {
  const { ldapAccountAttribute, ldapGroupAttribute, ldapGroupclass, ldapGroupou } = options;
  const { ldapBasedn } = options;
  const base = ldapGroupou === '' ? ldapBasedn : `ou=${escapeName(ldapGroupou)},${ldapBasedn}`;
  const name = `(${ldapAccountAttribute}=${escapeFilter(username)})`;
  const entries = await search(client, base, `(&${name}(objectClass=${ldapGroupclass}))`, [
    ldapAccountAttribute,
    'cn',
    ldapGroupAttribute,
  ]);
  const naming = entries
    .filter((entry) => valuesOf(entry, ldapAccountAttribute).includes(username))
    .flatMap((entry) => valuesOf(entry, 'cn').slice(0, 1));
  const named = entries
    .filter((entry) => firstValue(entry.dn) === username)
    .flatMap((entry) => valuesOf(entry, ldapGroupAttribute).map(firstValue));
  return [...new Set([...naming, ...named])].sort();
}

async function search(
  client: Client,
  base: string,
  filter: string,
  attributes: string[],
): Promise<readonly Entry[]> {
  const options = { scope: 'sub', filter, attributes, sizeLimit: maxGroups } as const;
  return (await client.search(base, options)).searchEntries;
}

/** Returns the string values of an attribute. The case of the attribute's name is ignored. */
export function valuesOf(entry: Entry, attribute: string): string[] {
  const name = Object.keys(entry).find((it) => it.toLowerCase() === attribute.toLowerCase());
  const value = name === undefined ? undefined : entry[name];
  return [value].flat().filter((it) => typeof it === 'string');
}
