/** Who may come to the HTTP API at all: by the name that is asked for, and by address. */
import { addressSet } from '../address-set.ts';
import { type OptionKind, textList } from './option-kinds.ts';
import { entriesOf } from './section-kind.ts';

/** `api_acl`: from where users log in [salt/netapi/rest_cherrypy/app.py, salt_api_acl_tool]. */
export interface ApiAcl {
  /**
   * Addresses and networks by user; `*` among them is any. The user `*` stands for all who are not
   * named; without it nobody else logs in.
   */
  readonly users: Readonly<Record<string, readonly string[]>>;
}

/** Names of hosts without ports, or `*`. */
export const hostNames: OptionKind<readonly string[]> = {
  expected: 'a list of names of hosts, without ports, or *',
  isPath: false,
  parse: (value) => {
    const names = textList.parse(value)?.map((name) => name.toLowerCase());
    return names?.every((name) => /^(?:\*|[a-z\d_](?:[a-z\d_.-]*[a-z\d_])?)$/.test(name))
      ? names
      : undefined;
  },
};

/** One or more addresses and networks. */
export const addresses: OptionKind<readonly string[]> = {
  expected: 'a list of addresses and networks such as 10.0.0.0/8',
  isPath: false,
  parse: (value) => {
    const list = textList.parse(value);
    return list !== undefined && list.length > 0 && areAddresses(list) ? list : undefined;
  },
};

/** A map with `users` alone. */
export const apiAcl: OptionKind<ApiAcl> = {
  expected: 'a map users: of names, each with a list of addresses and networks, or *',
  isPath: false,
  parse: (value) => {
    const [first, ...more] = entriesOf(value) ?? [];
    if (first?.[0] !== 'users' || more.length > 0) return undefined;
    const users: Record<string, readonly string[]> = Object.create(null);
    for (const [name, given] of entriesOf(first[1]) ?? []) {
      const list = textList.parse(given);
      if (list === undefined || !areAddresses(list.filter((it) => it !== '*'))) return undefined;
      users[name] = list;
    }
    return Object.keys(users).length === 0 ? undefined : { users };
  },
};

function areAddresses(list: readonly string[]): boolean {
  try {
    addressSet(list);
    return true;
  } catch {
    return false;
  }
}
