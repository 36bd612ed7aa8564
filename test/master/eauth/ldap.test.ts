/** Log-ins with a real OpenLDAP server. Skipped if slapd is not installed. */
import test from 'ava';
import fc from 'fast-check';
import { type EauthOptions, readBackend, resolveMasterConfig } from '#config';
import type { LoginBackend } from '#master/users/backend.ts';
import { createBackends } from '#master/users/backends.ts';
import { firstValue } from '#master/users/ldap-groups.ts';
import {
  attributesOfFilter,
  escapeFilter,
  escapeName,
  fillFilter,
  fillName,
} from '#master/users/ldap-names.ts';
import { testWhere } from '../../helpers/needs.ts';
import {
  adminDn,
  adminPassword,
  baseDn,
  hasSlapd,
  type Slapd,
  startSlapd,
} from '../../helpers/slapd.ts';

const withSlapd = testWhere(hasSlapd, 'the packages slapd and ldap-utils');

const searching: Partial<EauthOptions> = {
  ldapBasedn: baseDn,
  ldapBinddn: adminDn,
  ldapBindpw: adminPassword,
  ldapFilter: '(uid={{ username }})',
};

function backendOf(
  { port }: Pick<Slapd, 'port'>,
  options: Partial<EauthOptions> = searching,
): LoginBackend {
  const config = resolveMasterConfig({
    externalAuth: { ldap: { fred: ['.*'] } },
    eauth: { ldapServer: '127.0.0.1', ldapPort: port, ...options },
  });
  const backend = createBackends(config, Date.now).get('ldap');
  if (backend === undefined) throw new Error('there is no back end');
  return backend;
}

function asker(backend: LoginBackend): (username: string, password: string) => Promise<unknown> {
  return (username, password) =>
    backend.authenticate({ username, password }, AbortSignal.timeout(20_000));
}

async function standing(backend: LoginBackend, user: string): Promise<unknown> {
  return backend.standingOf?.({ user, groups: [] }, AbortSignal.timeout(20_000));
}

withSlapd('a user is found by the filter, and binds with the given password', async (t) => {
  const ask = asker(backendOf(await startSlapd(t)));
  t.deepEqual(await ask('fred', 'freds password'), { user: 'fred', groups: ['ops', 'staff'] });
  t.deepEqual(await ask('gina', 'ginas password'), { user: 'gina', groups: ['staff'] });
  t.is(await ask('fred', 'ginas password'), undefined);
  t.is(await ask('nobody', 'freds password'), undefined);
});

withSlapd(
  'for any spelling of a name, the user has the name of the account in the directory',
  async (t) => {
    const slapd = await startSlapd(t);
    const direct = {
      ldapBasedn: baseDn,
      ldapBinddn: `uid={{ username }},ou=People,${baseDn}`,
    };
    const byMail = { ...searching, ldapFilter: '(|(uid={{ username }})(cn={{username}}))' };
    for (const options of [searching, direct, byMail]) {
      const ask = asker(backendOf(slapd, options));
      for (const name of ['fred', 'FRED', 'Fred', '\uff26red']) {
        const found = await ask(name, 'freds password');
        t.deepEqual(found, { user: 'fred', groups: ['ops', 'staff'] }, name);
      }
      t.is(await ask('FRED', 'ginas password'), undefined);
    }
    const backend = backendOf(slapd);
    t.deepEqual(await standing(backend, 'FRED'), { state: 'gone' });
    t.deepEqual(await standing(backend, 'fred'), { state: 'valid', groups: ['ops', 'staff'] });
  },
);

withSlapd(
  'an account with several names has that of its distinguished name, or cannot log in',
  async (t) => {
    const slapd = await startSlapd(t);
    const change = (person: string): string =>
      `dn: ${person},ou=People,${baseDn}\nchangetype: modify\nadd: uid\nuid: other.${person}\n`;
    slapd.modify(change('uid=gina'));
    slapd.modify(change('cn=odd'));
    const ask = asker(backendOf(slapd));
    for (const name of ['gina', 'other.uid=gina']) {
      t.like(await ask(name, 'ginas password'), { user: 'gina' }, name);
    }
    t.is(await ask('other.cn=odd', 'odd password'), undefined);
  },
);

withSlapd('an empty password is refused, even if the server would accept it', async (t) => {
  const slapd = await startSlapd(t);
  t.is(await asker(backendOf(slapd))('fred', ''), undefined);
  const direct = { ldapBasedn: baseDn, ldapBinddn: `uid={{username}},ou=People,${baseDn}` };
  t.is(await asker(backendOf(slapd, direct))('fred', ''), undefined);
});

withSlapd('a name is escaped in a filter', async (t) => {
  const ask = asker(backendOf(await startSlapd(t)));
  for (const name of ['*', 'f*', 'fred)(uid=*', 'nobody)(|(uid=fred)', '\\66red', 'gina)(cn=*)']) {
    t.is(await ask(name, 'freds password'), undefined, name);
  }
  t.deepEqual(await ask('a*b(c)\\d', 'odd password'), { user: 'a*b(c)\\d', groups: [] });
});

withSlapd('without an account for searches, the name is part of the DN that binds', async (t) => {
  const backend = backendOf(await startSlapd(t), {
    ldapBasedn: baseDn,
    ldapBinddn: `uid={{ username }},ou=People,${baseDn}`,
  });
  const ask = asker(backend);
  t.deepEqual(await ask('gina', 'ginas password'), { user: 'gina', groups: ['staff'] });
  t.is(await ask('gina', 'x'), undefined);
  t.is(await ask(`gina,ou=People,${baseDn}`, 'ginas password'), undefined);
  // The back end cannot find out later whether she may still log in.
  t.is(backend.standingOf, undefined);
});

withSlapd('anonymous search finds the user, who still must authenticate', async (t) => {
  const ask = asker(
    backendOf(await startSlapd(t), {
      ldapBasedn: baseDn,
      ldapAnonymous: true,
      ldapFilter: '(uid={{username}})',
    }),
  );
  t.deepEqual(await ask('gina', 'ginas password'), { user: 'gina', groups: ['staff'] });
  t.is(await ask('gina', 'wrong'), undefined);
});

withSlapd('a filter that matches several people is refused', async (t) => {
  const ask = asker(
    backendOf(await startSlapd(t), {
      ...searching,
      ldapFilter: '(|(uid={{username}})(objectClass=inetOrgPerson))',
    }),
  );
  t.is(await ask('fred', 'freds password'), undefined);
});

withSlapd('groups are resolved, and a deleted user is reported as gone', async (t) => {
  const slapd = await startSlapd(t);
  const backend = backendOf(slapd);
  t.deepEqual(await standing(backend, 'gina'), { state: 'valid', groups: ['staff'] });
  const group = `dn: cn=ops,ou=Groups,${baseDn}\nchangetype: modify\nadd: memberUid\n`;
  slapd.modify(`${group}memberUid: gina\n`);
  t.deepEqual(await standing(backend, 'gina'), { state: 'valid', groups: ['ops', 'staff'] });
  slapd.modify(`dn: uid=gina,ou=People,${baseDn}\nchangetype: delete\n`);
  t.deepEqual(await standing(backend, 'gina'), { state: 'gone' });
});

withSlapd(
  'a user who is locked in the directory cannot log in, and loses all tokens',
  async (t) => {
    const slapd = await startSlapd(t);
    const backend = backendOf(slapd);
    const change = `dn: uid=fred,ou=People,${baseDn}\nchangetype: modify\n`;
    slapd.modify(`${change}add: objectClass\nobjectClass: extensibleObject\n`);
    // 512 is an ordinary account, and 2 is added for a disabled one.
    for (const [attribute, open, locked] of [
      ['userAccountControl', '512', '514'],
      ['nsAccountLock', 'false', 'TRUE'],
      ['pwdAccountLockedTime', undefined, '000001010000Z'],
    ] as const) {
      const set = (value: string | undefined): void =>
        slapd.modify(
          `${change}replace: ${attribute}\n${value === undefined ? '' : `${attribute}: ${value}\n`}`,
        );
      set(open);
      t.truthy(await asker(backend)('fred', 'freds password'), attribute);
      t.deepEqual(await standing(backend, 'fred'), { state: 'valid', groups: ['ops', 'staff'] });
      set(locked);
      t.is(await asker(backend)('fred', 'freds password'), undefined, attribute);
      t.deepEqual(await standing(backend, 'fred'), { state: 'gone' }, attribute);
      set(undefined);
    }
  },
);

withSlapd(
  'an unreachable server does not count as a wrong password, and no user is gone',
  async (t) => {
    const slapd = await startSlapd(t);
    const backend = backendOf(slapd);
    await slapd.stop();
    const unavailable = { code: 'ERR_EAUTH_UNAVAILABLE' };
    await t.throwsAsync(asker(backend)('fred', 'freds password'), unavailable);
    await t.throwsAsync(standing(backend, 'fred'), unavailable);
  },
);

withSlapd('STARTTLS is required if it is configured, with a valid certificate', async (t) => {
  const slapd = await startSlapd(t);
  const tls = { ...searching, ldapStarttls: true };
  await t.throwsAsync(asker(backendOf(slapd, tls))('fred', 'freds password'), {
    code: 'ERR_EAUTH_UNAVAILABLE',
  });
  const trusting = backendOf(slapd, { ...tls, ldapNoVerify: true });
  t.truthy(await asker(trusting)('fred', 'freds password'));
});

test('options that would admit everyone, or find no user, are refused', (t) => {
  const isServed = (eauth: Partial<EauthOptions>): boolean =>
    createBackends(resolveMasterConfig({ externalAuth: { ldap: {} }, eauth }), Date.now).has(
      'ldap',
    );
  t.true(isServed(searching));
  t.false(isServed({}));
  t.false(isServed({ ...searching, ldapByGroupOnly: true }));
  t.false(isServed({ ...searching, ldapStarttls: true, ldapTls: true }));
  t.false(isServed({ ...searching, ldapFilter: '(uid=fred)' }));
  t.false(isServed({ ldapBinddn: adminDn }));
});

test('a filter without outer parentheses is parsed like OpenLDAP parses it', (t) => {
  for (const template of ['uid={{ username }}', ' uid={{username}} ', '(uid={{ username }})']) {
    t.is(fillFilter(template, 'fr)ed'), '(uid=fr\\29ed)', template);
    t.deepEqual(attributesOfFilter(template), ['uid'], template);
  }
  const withGroups = '&(objectClass=group)(member={{ username }})';
  t.is(fillFilter(withGroups, 'fred'), '(&(objectClass=group)(member=fred))');
});

test('a filter with unbalanced parentheses is named', (t) => {
  const problemOf = (eauth: Partial<EauthOptions>): unknown =>
    readBackend('ldap', resolveMasterConfig({ externalAuth: { ldap: {} }, eauth }));
  const unpaired = '(&(uid={{ username }})(objectClass=person)';
  const problem = 'auth.ldap.filter has unpaired parentheses';
  t.deepEqual(problemOf({ ...searching, ldapFilter: unpaired }), { problem });
  t.like(problemOf({ ...searching, ldapGroupFilter: ')(' }), {
    problem: 'auth.ldap.group_filter has unpaired parentheses',
  });
});

test('an escaped name contains no special characters', (t) => {
  fc.assert(
    fc.property(fc.string(), (name) => {
      t.notRegex(escapeFilter(name).replace(/\\[0-9a-f]{2}/g, ''), /[\0()*\\]/);
      t.notRegex(escapeName(name).replace(/\\./gsu, ''), /[,+"<>;=\\]/);
    }),
  );
  t.is(fillName('uid={{username}},o=x', 'a,b'), 'uid=a\\,b,o=x');
  t.is(firstValue('cn=a\\,b\\2c,ou=Groups,o=x'), 'a,b,');
});
