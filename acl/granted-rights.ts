/**
 * Selects the entries of `external_auth` that apply to a user [salt/utils/minions.py
 * fill_auth_list].
 */

import { trimEnd } from '#runtime';
import type { PolicySyntax } from './policy-syntax.ts';
import { compileTexts } from './rule-patterns.ts';
import { accountPatterns, listOf } from './salt-rights.ts';
import type { UserSubject } from './types.ts';

/** Values of the options `external_auth` and `permissive_acl`. */
export interface GrantedRights {
  readonly externalAuth: Readonly<Record<string, unknown>>;
  readonly permissiveAcl: boolean;
}

/**
 * Returns the entries for one user, which {@link readUserRights} converts to rules. The list has no
 * duplicates. Texts come first, sorted, and then maps.
 */
export function rightsOfUser(
  { externalAuth, permissiveAcl }: GrantedRights,
  { name, groups, eauth }: UserSubject,
  syntax: Pick<PolicySyntax, 'glob' | 'regex'>,
): readonly unknown[] {
  const users =
    eauth !== undefined && Object.hasOwn(externalAuth, eauth) ? externalAuth[eauth] : {};
  const entries = Object.entries(users ?? {}).filter(([key]) => !key.startsWith('^'));
  const place = { rule: 'external_auth', field: 'user' };
  const means = (pattern: string, text: string): boolean =>
    compileTexts(accountPatterns(pattern, syntax.regex), syntax, place)(text);
  const named = entries.filter(([key]) => key !== '*' && !key.endsWith('%') && means(key, name));
  const ofGroups = entries.filter(
    ([key]) => key.endsWith('%') && groups.some((group) => means(trimEnd(key, '%'), group)),
  );
  const fallback =
    permissiveAcl || named.length === 0 ? entries.filter(([key]) => key === '*') : [];
  const granted = [...named, ...ofGroups, ...fallback].flatMap(([, list]) => listOf(list));
  const texts = granted.filter((entry) => typeof entry === 'string');
  const unique = new Map(granted.map((entry) => [JSON.stringify(entry), entry]));
  const maps = [...unique.values()].filter((entry) => typeof entry !== 'string');
  return [...[...new Set(texts)].sort(), ...maps];
}
