import { type Grant, type GrantSyntax, parseGrants } from '#acl';
import { compileWholePattern } from '#minion-protocol';
import { ConfigError, typeError } from './config-error.ts';
import { itemsOf, type OptionKind, type Setting, settingsOf, toPlain } from './option-kinds.ts';

/** The value of `peer`, `peer_run` or `mine_get`, as it was written. */
export type Permissions = Readonly<Record<string, unknown>>;

/** Who may have which function: maps in the list are functions with conditions on arguments. */
export const functionPermissions: OptionKind<Permissions> = permissions('function');

/** Who may publish which function: maps in the list are targets with functions. */
export const publishPermissions: OptionKind<Permissions> = permissions('target');

/** Reads permissions that were checked. */
export function compilePermissions(value: Permissions, mapKey: GrantSyntax['mapKey']): Grant[] {
  return parseGrants(value, { compile: compileWholePattern, mapKey });
}

function permissions(mapKey: GrantSyntax['mapKey']): OptionKind<Permissions> {
  return {
    expected:
      'a map of regular expressions on ids to lists of regular expressions on functions ' +
      '(lookaround and back-references are not taken)',
    isPath: false,
    parse: (value) => {
      const plain = toPlain(value);
      if (!isPermissions(plain)) return undefined;
      try {
        compilePermissions(plain, mapKey);
        return plain;
      } catch (error) {
        if (error instanceof SyntaxError) return undefined;
        throw error;
      }
    },
    explain: (setting) =>
      ConfigError.of(settingsOf(setting).flatMap(([id, list]) => explainEntry(id, list, mapKey))),
  };
}

/** The expressions of an entry that cannot be read, or the entry. */
function explainEntry(
  id: string,
  list: Setting,
  mapKey: GrantSyntax['mapKey'],
): readonly ConfigError[] {
  const isRight = (value: unknown): boolean =>
    permissions(mapKey).parse(Object.fromEntries([[id, value]])) !== undefined;
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
export function isPermissions(value: unknown): value is Permissions {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
