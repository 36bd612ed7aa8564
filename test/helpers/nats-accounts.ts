/** Starts a nats-server with an operator, and creates credentials in the format of nsc. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { nkeys } from '@nats-io/transport-node';
import type { ExecutionContext } from 'ava';
import { startNatsServer, type TestNatsServer } from './nats-server.ts';
import { temporaryDirectory } from './temporary-directory.ts';

type KeyPair = ReturnType<typeof nkeys.createOperator>;

const limits = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, conn: -1, leaf: -1 };
const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };

function sign(
  issuer: KeyPair,
  type: 'account' | 'operator' | 'user',
  subject: KeyPair,
  ofType: object = limits,
): string {
  const sub = subject.getPublicKey();
  const claims = { jti: type, iat: 1, iss: issuer.getPublicKey(), name: type, sub };
  const parts = [
    { typ: 'JWT', alg: 'ed25519-nkey' },
    { ...claims, nats: { type, version: 2, ...ofType } },
  ];
  const text = parts.map((it) => Buffer.from(JSON.stringify(it)).toString('base64url')).join('.');
  return `${text}.${Buffer.from(issuer.sign(Buffer.from(text))).toString('base64url')}`;
}

/** Starts the server. JetStream is enabled for the account of the credentials. */
export async function startOperatorServer(
  t: ExecutionContext,
): Promise<{ readonly server: TestNatsServer; readonly credentialsFile: string }> {
  const operator = nkeys.createOperator();
  const [system, account, user] = [
    nkeys.createAccount(),
    nkeys.createAccount(),
    nkeys.createUser(),
  ];
  const ofSystem = sign(operator, 'account', system, { limits });
  const ofAccount = sign(operator, 'account', account, { limits: { ...limits, ...storage } });
  const [systemId, accountId] = [system.getPublicKey(), account.getPublicKey()];
  const server = await startNatsServer(t, [
    `operator: ${sign(operator, 'operator', operator)}`,
    `system_account: ${systemId}`,
    'resolver: MEMORY',
    `resolver_preload: { ${systemId}: ${ofSystem}, ${accountId}: ${ofAccount} }`,
  ]);
  const credentialsFile = path.join(temporaryDirectory(t), 'user.creds');
  const block = (name: string, body: string): string =>
    `-----BEGIN ${name}-----\n${body}\n------END ${name}------\n`;
  const seed = Buffer.from(user.getSeed()).toString();
  const texts = [
    block('NATS USER JWT', sign(account, 'user', user)),
    block('USER NKEY SEED', seed),
  ];
  writeFileSync(credentialsFile, texts.join('\n'), { mode: 0o600 });
  return { server, credentialsFile };
}
