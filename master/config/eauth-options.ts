/** Options of log-ins and tokens. They are Salt's, and stand at the top of a file. */
import type { OptionKind } from './option-kinds.ts';
import { flag, integer, passphrase, text, textList } from './option-kinds.ts';
import type { OptionTable } from './option-table.ts';
import { toPlain } from './plain-data.ts';

/** Who may choose how long their token lives: everybody, nobody, or these by their eauth. */
export type ExpireOverride = boolean | Readonly<Record<string, readonly string[]>>;

/** Options of log-ins and tokens. */
export interface EauthOptions {
  /** `token_expire`: seconds that a token lives. Default 43200. */
  readonly tokenExpire: number;
  /** `token_expire_user_override`: who may choose themselves. Default false. */
  readonly tokenExpireUserOverride: ExpireOverride;
  /** `keep_acl_in_token`: a token keeps what was granted when it was made. Default false. */
  readonly keepAclInToken: boolean;
  /** `sudo_acl`: who came by sudo may what `publisher_acl` says, if it is set. Default false. */
  readonly sudoAcl: boolean;
  /** `sharedsecret`: everybody's password, for the back end of that name. Default `null`. Secret. */
  readonly sharedsecret: string | null;
  /** `auth.pam.service`: the PAM service. Default `login`. */
  readonly pamService: string;
  /** `keystone.auth_url`: Keystone, version 3. Default `http://localhost:5000/v3`. */
  readonly keystoneAuthUrl: string;
  /** `auth.ldap.uri`: the server's address. Default `null`: from the next four. */
  readonly ldapUri: string | null;
  /** `auth.ldap.server`. Default `localhost`. */
  readonly ldapServer: string;
  /** `auth.ldap.port`. Default 389. */
  readonly ldapPort: number;
  /** `auth.ldap.starttls`: TLS on that port, before anything is said. Default false. */
  readonly ldapStarttls: boolean;
  /** `auth.ldap.tls`: TLS from the first byte (`ldaps`). Default false. */
  readonly ldapTls: boolean;
  /** `auth.ldap.no_verify`: take any certificate. Default false. */
  readonly ldapNoVerify: boolean;
  /** `auth.ldap.binddn`: account that searches; or, without a password, the user's own name. */
  readonly ldapBinddn: string | null;
  /** `auth.ldap.bindpw`: its password. Default `null`. Secret. */
  readonly ldapBindpw: string | null;
  /** `auth.ldap.filter`: finds the user; `{{ username }}` stands for the name. */
  readonly ldapFilter: string | null;
  /** `auth.ldap.basedn`: below which everything lies. Default: the root. */
  readonly ldapBasedn: string;
  /** `auth.ldap.scope`: 0 base, 1 one level, 2 all below. Default 2. */
  readonly ldapScope: number;
  /** `auth.ldap.anonymous`: search without an account. Default false. */
  readonly ldapAnonymous: boolean;
  /** `auth.ldap.auth_by_group_membership_only`: not served; it would ask for no password. */
  readonly ldapByGroupOnly: boolean;
  /** `auth.ldap.groupou`: below which groups lie. Default `Groups`; empty: the base. */
  readonly ldapGroupou: string;
  /** `auth.ldap.group_basedn`: the same, with `freeipa`. */
  readonly ldapGroupBasedn: string | null;
  /** `auth.ldap.group_filter`: finds the user's groups, with `freeipa`. */
  readonly ldapGroupFilter: string | null;
  /** `auth.ldap.accountattributename`: of a group: its members. Default `memberUid`. */
  readonly ldapAccountAttribute: string;
  /** `auth.ldap.groupattribute`: of a person: their groups. Default `memberOf`. */
  readonly ldapGroupAttribute: string;
  /** `auth.ldap.persontype`. Default `person`. */
  readonly ldapPersontype: string;
  /** `auth.ldap.groupclass`. Default `posixGroup`. */
  readonly ldapGroupclass: string;
  /** `auth.ldap.activedirectory`: groups as Active Directory has them. Default false. */
  readonly ldapActivedirectory: boolean;
  /** `auth.ldap.freeipa`: groups as FreeIPA has them. Default false. */
  readonly ldapFreeipa: boolean;
}

/** A number is one whose quotes were forgotten. */
const secretText: OptionKind<string> = {
  ...passphrase,
  parse: (value) => passphrase.parse(typeof value === 'number' ? String(value) : value),
};

/** The name of a file in /etc/pam.d. */
const serviceName: OptionKind<string> = {
  ...text,
  expected: 'the name of a PAM service',
  parse: (value) => (/^\w[\w.-]*$/.test(String(value)) ? text.parse(value) : undefined),
};

/** Salt writes it as text, too. */
const port: OptionKind<number> = {
  ...integer(1, 65_535),
  parse: (value) => integer(1, 65_535).parse(typeof value === 'string' ? Number(value) : value),
};

/** Text that may be empty. */
const anyText: OptionKind<string> = {
  expected: 'text',
  isPath: false,
  parse: (value) => (value === '' || value === false ? '' : text.parse(value)),
};

const expireOverride: OptionKind<ExpireOverride> = {
  expected: 'true, false, or a map of eauths to lists of users',
  isPath: false,
  parse: (value) => {
    const plain = toPlain(value);
    if (typeof plain !== 'object' || plain === null || Array.isArray(plain)) {
      return flag.parse(plain);
    }
    const lists = Object.entries(plain).map(
      ([name, list]) => [name, textList.parse(list)] as const,
    );
    const read = lists.flatMap(([name, list]) =>
      list === undefined ? [] : [[name, list] as const],
    );
    return read.length === lists.length ? Object.fromEntries(read) : undefined;
  },
};

/** A row for each. */
export const eauthOptions: OptionTable<EauthOptions> = {
  tokenExpire: { name: 'token_expire', kind: integer(1, 1_000_000_000), default: 43_200 },
  tokenExpireUserOverride: {
    name: 'token_expire_user_override',
    kind: expireOverride,
    default: false,
  },
  keepAclInToken: { name: 'keep_acl_in_token', kind: flag, default: false },
  sudoAcl: { name: 'sudo_acl', kind: flag, default: false },
  sharedsecret: { name: 'sharedsecret', kind: secretText, default: null },
  pamService: { name: 'auth.pam.service', kind: serviceName, default: 'login' },
  keystoneAuthUrl: { name: 'keystone.auth_url', kind: text, default: 'http://localhost:5000/v3' },
  ldapUri: { name: 'auth.ldap.uri', kind: text, default: null },
  ldapServer: { name: 'auth.ldap.server', kind: text, default: 'localhost' },
  ldapPort: { name: 'auth.ldap.port', kind: port, default: 389 },
  ldapStarttls: { name: 'auth.ldap.starttls', kind: flag, default: false },
  ldapTls: { name: 'auth.ldap.tls', kind: flag, default: false },
  ldapNoVerify: { name: 'auth.ldap.no_verify', kind: flag, default: false },
  ldapBinddn: { name: 'auth.ldap.binddn', kind: text, default: null },
  ldapBindpw: { name: 'auth.ldap.bindpw', kind: secretText, default: null },
  ldapFilter: { name: 'auth.ldap.filter', kind: text, default: null },
  ldapBasedn: { name: 'auth.ldap.basedn', kind: anyText, default: '' },
  ldapScope: { name: 'auth.ldap.scope', kind: integer(0, 2), default: 2 },
  ldapAnonymous: { name: 'auth.ldap.anonymous', kind: flag, default: false },
  ldapByGroupOnly: {
    name: 'auth.ldap.auth_by_group_membership_only',
    kind: flag,
    default: false,
  },
  ldapGroupou: { name: 'auth.ldap.groupou', kind: anyText, default: 'Groups' },
  ldapGroupBasedn: { name: 'auth.ldap.group_basedn', kind: text, default: null },
  ldapGroupFilter: { name: 'auth.ldap.group_filter', kind: text, default: null },
  ldapAccountAttribute: {
    name: 'auth.ldap.accountattributename',
    kind: text,
    default: 'memberUid',
  },
  ldapGroupAttribute: { name: 'auth.ldap.groupattribute', kind: text, default: 'memberOf' },
  ldapPersontype: { name: 'auth.ldap.persontype', kind: text, default: 'person' },
  ldapGroupclass: { name: 'auth.ldap.groupclass', kind: text, default: 'posixGroup' },
  ldapActivedirectory: { name: 'auth.ldap.activedirectory', kind: flag, default: false },
  ldapFreeipa: { name: 'auth.ldap.freeipa', kind: flag, default: false },
};
