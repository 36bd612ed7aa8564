/** Salt's options for log-ins and tokens. They are at the top level of a file. */

import { option } from './option.ts';
import {
  anyText,
  custom,
  flag,
  integer,
  parseValue,
  passphrase,
  refusals,
  text,
  textList,
  textWhere,
} from './schema.ts';
import { settingsOf, toPlain } from './settings.ts';

/**
 * Users who may choose the lifetime of their token: all users (true), no user (false), or the
 * listed users of each eauth back end.
 */
export type ExpireOverride = boolean | Readonly<Record<string, readonly string[]>>;

const expireOverride = custom<ExpireOverride>({
  expected: 'true, false, or a map of eauths to lists of users',
  accept: (value) => {
    const plain = toPlain(value);
    if (typeof plain === 'boolean') return plain;
    if (typeof plain !== 'object' || plain === null || Array.isArray(plain)) return undefined;
    const lists = Object.entries(plain).map(
      ([name, users]) => [name, parseValue(textList(), users)] as const,
    );
    return lists.every(([, users]) => users !== undefined) ? Object.fromEntries(lists) : undefined;
  },
  explain: (setting) => settingsOf(setting).flatMap(([, users]) => refusals(textList(), users)),
});

/** Schema of a secret. A number is rejected, because it is probably a text without quotes. */
const secretText = passphrase({
  accept: (value) => {
    const secret = typeof value === 'number' ? String(value) : value;
    return typeof secret === 'string' && secret.startsWith('sdb://') ? undefined : secret;
  },
});

const serviceName = textWhere((name) => /^\w[\w.-]*$/.test(name), 'the name of a PAM service');

/** Schema of a port. A text is accepted too, because Salt's documentation writes it as a text. */
const port = integer(1, 65_535, {
  accept: (value) => (typeof value === 'string' ? Number(value) : value),
});

const emptyText = anyText({ accept: (value) => (value === false ? '' : value) });

const reload = 'the next log-in';

/**
 * Table of the options for log-ins and tokens. Their values are in the member `eauth` of the
 * configuration.
 */
export const loginOptions = {
  tokenExpire: option(
    'token_expire',
    integer(1, 1_000_000_000, { unit: 'seconds' }),
    43_200,
    'Lifetime of a token.',
    { reload },
  ),
  tokenExpireUserOverride: option(
    'token_expire_user_override',
    expireOverride,
    false,
    'Users who may choose the lifetime of their tokens.',
    { reload },
  ),
  keepAclInToken: option(
    'keep_acl_in_token',
    flag(),
    false,
    'Whether a token keeps the rights that its user had at the log-in.',
    { reload },
  ),
  sudoAcl: option(
    'sudo_acl',
    flag(),
    false,
    'Whether `publisher_acl`, if set, limits users of sudo.',
    { reload: 'the next request' },
  ),
  sharedsecret: option(
    'sharedsecret',
    secretText,
    null,
    'Password of every user of the back end `sharedsecret`.',
    { reload, isSecret: true },
  ),
  pamService: option('auth.pam.service', serviceName, 'login', 'PAM service.', { reload }),
  keystoneAuthUrl: option(
    'keystone.auth_url',
    text(),
    'http://localhost:5000/v3',
    'Address of Keystone, version 3.',
    { reload },
  ),
  ldapUri: option('auth.ldap.uri', text(), null, 'Address of the LDAP server.', {
    defaultText: 'built from the next four options',
    reload,
  }),
  ldapServer: option('auth.ldap.server', text(), 'localhost', 'Host of the LDAP server.', {
    reload,
  }),
  ldapPort: option('auth.ldap.port', port, 389, 'Port of the LDAP server.', { reload }),
  ldapStarttls: option(
    'auth.ldap.starttls',
    flag(),
    false,
    'Whether TLS is started on the port of the LDAP server before the first request.',
    { reload },
  ),
  ldapTls: option('auth.ldap.tls', flag(), false, 'Whether connections use TLS from the start.', {
    reload,
  }),
  ldapNoVerify: option(
    'auth.ldap.no_verify',
    flag(),
    false,
    'Whether any certificate is accepted.',
    {
      reload,
    },
  ),
  ldapBinddn: option(
    'auth.ldap.binddn',
    text(),
    null,
    'Account that searches. Without a password, the name of the user, with `{{ username }}` as a placeholder.',
    { reload },
  ),
  ldapBindpw: option('auth.ldap.bindpw', secretText, null, 'Password of the search account.', {
    reload,
    isSecret: true,
  }),
  ldapFilter: option(
    'auth.ldap.filter',
    text(),
    null,
    'Filter that finds the user, with `{{ username }}` as a placeholder.',
    { reload },
  ),
  ldapBasedn: option('auth.ldap.basedn', emptyText, '', 'Base of all searches.', {
    defaultText: 'the root',
    reload,
  }),
  ldapScope: option(
    'auth.ldap.scope',
    integer(0, 2),
    2,
    'Scope of searches: 0 the base, 1 one level, 2 all levels.',
    { reload },
  ),
  ldapAnonymous: option(
    'auth.ldap.anonymous',
    flag(),
    false,
    'Whether searches run without an account.',
    { reload },
  ),
  ldapByGroupOnly: option(
    'auth.ldap.auth_by_group_membership_only',
    flag(),
    false,
    'Not supported, because no password would be checked.',
    { reload },
  ),
  ldapGroupou: option(
    'auth.ldap.groupou',
    emptyText,
    'Groups',
    'Base of groups. If empty, `basedn`.',
    {
      reload,
    },
  ),
  ldapGroupBasedn: option(
    'auth.ldap.group_basedn',
    text(),
    null,
    'Base of groups with `freeipa`.',
    { reload },
  ),
  ldapGroupFilter: option(
    'auth.ldap.group_filter',
    text(),
    null,
    "Filter that finds the user's groups with `freeipa`.",
    { reload },
  ),
  ldapAccountAttribute: option(
    'auth.ldap.accountattributename',
    text(),
    'memberUid',
    'Attribute of a group that lists its members.',
    { reload },
  ),
  ldapGroupAttribute: option(
    'auth.ldap.groupattribute',
    text(),
    'memberOf',
    'Attribute of a person that lists their groups.',
    { reload },
  ),
  ldapPersontype: option('auth.ldap.persontype', text(), 'person', 'Object class of persons.', {
    reload,
  }),
  ldapGroupclass: option('auth.ldap.groupclass', text(), 'posixGroup', 'Object class of groups.', {
    reload,
  }),
  ldapActivedirectory: option(
    'auth.ldap.activedirectory',
    flag(),
    false,
    'Whether groups are those of Active Directory.',
    { reload },
  ),
  ldapFreeipa: option('auth.ldap.freeipa', flag(), false, 'Whether groups are those of FreeIPA.', {
    reload,
  }),
};
