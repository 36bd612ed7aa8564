/** The user of a job that was started through the local socket. */
import { createHash } from 'node:crypto';
import { chownSync, linkSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { userInfo } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import { testWhere } from '../../helpers/needs.ts';
import { directories, startVectorMaster } from '../../helpers/vector-master.ts';

const { uid, username } = userInfo();
const testAsRoot = testWhere(uid === 0, 'root');
const nobody = 65_534;

async function start(t: ExecutionContext): Promise<string> {
  const { directory } = await startVectorMaster(t);
  return directories(directory).socket ?? '';
}

/** Returns the user that `jobs.publish` stores for a call of connectMaster. */
async function userOf(socketPath: string, user?: string): Promise<string> {
  const { jobs } = connectMaster({ socketPath });
  const asked = { tgt: '*', fun: 'test.ping', ...(user === undefined ? {} : { user }) };
  const { jid } = await jobs.publish(asked);
  return (await jobs.show(jid)).user;
}

/** Returns this user for a call with or without a reference to a proof. */
async function userOfCall(socketPath: string, headers: Record<string, string>): Promise<string> {
  const body = JSON.stringify({ tgt: '*', fun: 'test.ping' });
  const text = await new Promise<string>((resolve, reject) => {
    const options = { socketPath, path: '/rpc/jobs.publish', method: 'POST', headers };
    const request = httpRequest(options, (response) => {
      let answer = '';
      response.on('data', (chunk: Buffer) => {
        answer += chunk.toString();
      });
      response.on('end', () => resolve(answer));
    });
    request.on('error', reject);
    request.end(body);
  });
  const { jid } = JSON.parse(text).result;
  return (await connectMaster({ socketPath }).jobs.show(jid)).user;
}

const secret = 'ab'.repeat(32);
const digest = createHash('sha256').update(secret).digest('hex');

function proofOf(socketPath: string): string {
  return path.join(path.dirname(socketPath), `.caller-${digest}`);
}

test('a job of the local socket belongs to the account of its caller, and leaves no file', async (t) => {
  const socketPath = await start(t);
  t.is(await userOf(socketPath), username);
  t.deepEqual(
    readdirSync(path.dirname(socketPath)).filter((name) => name.startsWith('.caller-')),
    [],
  );
});

test('only root may name the user who used sudo', async (t) => {
  const socketPath = await start(t);
  t.is(await userOf(socketPath, 'sudo_fred'), 'sudo_fred');
  t.is(await userOf(socketPath, 'fred'), username);
});

testAsRoot('without a proof a job belongs to the account that owns the socket', async (t) => {
  const socketPath = await start(t);
  chownSync(socketPath, nobody, nobody);
  t.is(await userOfCall(socketPath, {}), `uid:${nobody}`);
  t.is(await userOfCall(socketPath, { 'x-saltbridge-caller': secret }), `uid:${nobody}`);
  t.is(await userOf(socketPath), 'root');
});

testAsRoot(
  "a proof is valid once, and only as the caller's own file with the digest in it",
  async (t) => {
    const socketPath = await start(t);
    const file = proofOf(socketPath);
    const headers = { 'x-saltbridge-caller': secret };
    writeFileSync(file, digest);
    chownSync(file, nobody, nobody);
    t.is(await userOfCall(socketPath, headers), `uid:${nobody}`);
    t.is(await userOfCall(socketPath, headers), 'root');
    chownSync(socketPath, nobody, nobody);
    const other = path.join(path.dirname(socketPath), 'other');
    writeFileSync(other, digest);
    linkSync(other, file);
    t.is(await userOfCall(socketPath, headers), `uid:${nobody}`);
    symlinkSync(other, file);
    t.is(await userOfCall(socketPath, headers), `uid:${nobody}`);
  },
);

testAsRoot('a file of root with other content proves nothing', async (t) => {
  const socketPath = await start(t);
  chownSync(socketPath, nobody, nobody);
  writeFileSync(proofOf(socketPath), 'x'.repeat(digest.length));
  t.is(await userOfCall(socketPath, { 'x-saltbridge-caller': secret }), `uid:${nobody}`);
});
