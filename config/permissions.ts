import type { TUnsafe } from 'typebox';
import { type Grant, type GrantSyntax, parseGrants } from '#acl';
import { compileWholePattern } from '#minion-protocol';
import { ConfigError, typeError } from './config-error.ts';
import { custom } from './schema.ts';
import { itemsOf, type Setting, settingsOf, toPlain } from './settings.ts';

/** Value of `peer`, `peer_run` or `mine_get`, as written. */
export type Permissions = Readonly<Record<string, unknown>>;

/**
 * Schema of `peer_run` and `mine_get`: the functions that minions may call. A map in the list is a
 * function with conditions on its arguments.
 */
export const functionPermissions: TUnsafe<Permissions> = permissions('function');

/**
 * Schema of `peer`: the functions that minions may run on other minions. In a map, the key is a
 * target, and the value lists the functions that may be run on this target.
 */
export const publishPermissions: TUnsafe<Permissions> = permissions('target');

/** Converts validated permissions to grants. */
export function compilePermissions(value: Permissions, mapKey: GrantSyntax['mapKey']): Grant[] {
  return parseGrants(value, { compile: compileWholePattern, mapKey });
}

function permissions(mapKey: GrantSyntax['mapKey']): TUnsafe<Permissions> {
  return custom<Permissions>(
    {
      expected:
        'a map of regular expressions on ids to lists of regular expressions on functions ' +
        '(without lookaround and back-references)',
      accept: (value) => readPermissions(value, mapKey),
      explain: (setting) =>
        settingsOf(setting).flatMap(([id, list]) => explainEntry(id, list, mapKey)),
    },
    { type: 'object' },
  );
}

function readPermissions(value: unknown, mapKey: GrantSyntax['mapKey']): Permissions | undefined {
  const plain = toPlain(value);
  // As in Salt, a value that is not a map permits nothing. A warning reports this.
  if (typeof plain === 'boolean') return {};
  if (!isPermissions(plain)) return undefined;
  try {
    compilePermissions(plain, mapKey);
    return plain;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * Returns one error for each invalid expression in an entry. If the entry is invalid for another
 * reason, returns one error for the whole entry. If the entry is valid, returns an empty list.
 */
function explainEntry(
  id: string,
  list: Setting,
  mapKey: GrantSyntax['mapKey'],
): readonly ConfigError[] {
  const isRight = (value: unknown): boolean =>
    readPermissions(Object.fromEntries([[id, value]]), mapKey) !== undefined;
  if (isRight(toPlain(list.value))) return [];
  const expected = 'regular expressions (without lookaround and back-references)';
  if (!isRight([])) {
    const problem = `cannot be read, expected ${expected}`;
    return [new ConfigError('ERR_OPTION_TYPE', list.origin, problem)];
  }
  const items = itemsOf(list).filter(({ value }) => !isRight([toPlain(value)]));
  const refused = items.length === 0 ? [list] : items;
  return refused.map(({ origin, value }) => typeError(origin, value, expected));
}

/** Whether a value is a map or plain object. */
function isPermissions(value: unknown): value is Permissions {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Schema of user rights, as written. Parts that cannot be read cause warnings but do not prevent
 * the start.
 */
export const rights = custom<Permissions>(
  {
    expected: 'a map',
    accept: (value) => {
      const plain = toPlain(value);
      return isPermissions(plain) ? plain : undefined;
    },
  },
  { type: 'object' },
);
