import type { TUnsafe } from 'typebox';
import { type Grant, type GrantSyntax, parseGrants } from '#acl';
import { compileWholePattern } from '#minion-protocol';
import { ConfigError, typeError } from './config-error.ts';
import { custom } from './schema.ts';
import { itemsOf, type Setting, settingsOf, toPlain } from './settings.ts';

/** The value of `peer`, `peer_run` or `mine_get`, as it was written. */
export type Permissions = Readonly<Record<string, unknown>>;

/** Who may have which function: maps in the list are functions with conditions on arguments. */
export const functionPermissions: TUnsafe<Permissions> = permissions('function');

/** Who may publish which function: maps in the list are targets with functions. */
export const publishPermissions: TUnsafe<Permissions> = permissions('target');

/** Reads permissions that were checked. */
export function compilePermissions(value: Permissions, mapKey: GrantSyntax['mapKey']): Grant[] {
  return parseGrants(value, { compile: compileWholePattern, mapKey });
}

function permissions(mapKey: GrantSyntax['mapKey']): TUnsafe<Permissions> {
  return custom<Permissions>(
    {
      expected:
        'a map of regular expressions on ids to lists of regular expressions on functions ' +
        '(lookaround and back-references are not taken)',
      accept: (value) => readPermissions(value, mapKey),
      explain: (setting) =>
        settingsOf(setting).flatMap(([id, list]) => explainEntry(id, list, mapKey)),
    },
    { type: 'object' },
  );
}

function readPermissions(value: unknown, mapKey: GrantSyntax['mapKey']): Permissions | undefined {
  const plain = toPlain(value);
  // As in Salt, a value that is no map permits nothing. A warning reports it.
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

/** The expressions of an entry that cannot be read, or the entry. */
function explainEntry(
  id: string,
  list: Setting,
  mapKey: GrantSyntax['mapKey'],
): readonly ConfigError[] {
  const isRight = (value: unknown): boolean =>
    readPermissions(Object.fromEntries([[id, value]]), mapKey) !== undefined;
  if (isRight(toPlain(list.value))) return [];
  const expected = 'regular expressions (lookaround and back-references are not taken)';
  if (!isRight([])) {
    const problem = `it cannot be read, expected ${expected}`;
    return [new ConfigError('ERR_OPTION_TYPE', list.origin, problem)];
  }
  const items = itemsOf(list).filter(({ value }) => !isRight([toPlain(value)]));
  const refused = items.length === 0 ? [list] : items;
  return refused.map(({ origin, value }) => typeError(origin, value, expected));
}

/** Whether it is plain data with names. */
function isPermissions(value: unknown): value is Permissions {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Rights of users, as they were written: what cannot be read of them is told, and refuses no start. */
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
