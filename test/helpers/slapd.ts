/** Starts a real OpenLDAP server with a small directory, if slapd is installed. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { freePort } from '../../bench/free-port.ts';
import { makeCertificate } from './certificate.ts';
import { temporaryDirectory } from './temporary-directory.ts';

const program = '/usr/sbin/slapd';

/** Whether slapd is installed. */
export const hasSlapd: boolean = existsSync(program);

export interface Slapd {
  readonly port: number;
  /** Applies an LDIF change as the administrator of the directory. */
  modify(ldif: string): void;
  stop(): Promise<void>;
}

export const baseDn = 'dc=example,dc=org';
export const adminDn: string = `cn=admin,${baseDn}`;
export const adminPassword = 'admin password';

/**
 * Attributes with which Active Directory and 389 Directory Server lock an account. OpenLDAP has its
 * own attribute.
 */
const foreignLocks = [
  "( 1.2.840.113556.1.4.8 NAME 'userAccountControl' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )",
  "( 2.16.840.1.113730.3.1.610 NAME 'nsAccountLock' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
];

/** People `fred`, `gina` and one whose name is `a*b(c)\d`, and the groups `staff` and `ops`. */
const people = `
dn: ${baseDn}
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=People,${baseDn}
objectClass: organizationalUnit
ou: People

dn: ou=Groups,${baseDn}
objectClass: organizationalUnit
ou: Groups

dn: uid=fred,ou=People,${baseDn}
objectClass: inetOrgPerson
uid: fred
cn: Fred
sn: F
userPassword: freds password

dn: uid=gina,ou=People,${baseDn}
objectClass: inetOrgPerson
uid: gina
cn: Gina
sn: G
userPassword: ginas password

dn: cn=odd,ou=People,${baseDn}
objectClass: inetOrgPerson
uid: a*b(c)\\d
cn: odd
sn: O
userPassword: odd password

dn: cn=staff,ou=Groups,${baseDn}
objectClass: posixGroup
cn: staff
gidNumber: 1000
memberUid: fred
memberUid: gina

dn: cn=ops,ou=Groups,${baseDn}
objectClass: posixGroup
cn: ops
gidNumber: 1001
memberUid: fred
`;

/** Starts a server on a free port. It is stopped at the end of the test. */
export async function startSlapd(t: ExecutionContext): Promise<Slapd> {
  const directory = temporaryDirectory(t);
  const port = await freePort();
  const configuration = writeConfiguration(directory);
  const ldif = path.join(directory, 'people.ldif');
  writeFileSync(ldif, people.trimStart());
  const added = spawnSync('/usr/sbin/slapadd', ['-f', configuration, '-l', ldif]);
  if (added.status !== 0) throw new Error(`slapadd: ${added.stderr}`);
  const url = `ldap://127.0.0.1:${port}`;
  // With -d, the process stays in the foreground and can be ended as a child process.
  const child = spawn(program, ['-h', url, '-f', configuration, '-d', '0'], { stdio: 'ignore' });
  t.teardown(() => stop(child));
  await listening(port, child);
  return {
    port,
    modify: (changes) => {
      const words = ['-x', '-H', url, '-D', adminDn, '-w', adminPassword];
      const done = spawnSync('/usr/bin/ldapmodify', words, { input: changes });
      if (done.status !== 0) throw new Error(`ldapmodify: ${done.stderr}`);
    },
    stop: () => stop(child),
  };
}

function writeConfiguration(directory: string): string {
  const database = path.join(directory, 'db');
  mkdirSync(database);
  const file = path.join(directory, 'slapd.conf');
  const { certificate, key } = makeCertificate(directory);
  const lines = [
    ...['core', 'cosine', 'inetorgperson', 'nis'].map(
      (it) => `include /etc/ldap/schema/${it}.schema`,
    ),
    'modulepath /usr/lib/ldap',
    'moduleload back_mdb',
    'moduleload ppolicy',
    ...foreignLocks.map((it) => `attributetype ${it}`),
    `TLSCertificateFile ${certificate}`,
    `TLSCertificateKeyFile ${key}`,
    'allow bind_anon_cred',
    'database mdb',
    'maxsize 10485760',
    `suffix "${baseDn}"`,
    `rootdn "${adminDn}"`,
    `rootpw "${adminPassword}"`,
    `directory ${database}`,
    'overlay ppolicy',
    '',
  ];
  writeFileSync(file, lines.join('\n'));
  return file;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** Waits until the server accepts connections. It has no other way to report that it is ready. */
async function listening(port: number, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const socket = connect(port, '127.0.0.1');
    const isThere = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (isThere) return;
  }
  throw new Error('slapd ended');
}
