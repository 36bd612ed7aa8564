import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { isMainThread } from 'node:worker_threads';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '../../../client/index.ts';
import { createMaster, type Master, resolveMasterConfig } from '../../../master/index.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

function masterIn(t: ExecutionContext, directory: string, run = directory): Master {
  const config = resolveMasterConfig({
    interface: '127.0.0.1',
    publishPort: 0,
    retPort: 0,
    id: 'socket-test',
    pkiDir: path.join(directory, 'pki'),
    cachedir: path.join(directory, 'cache'),
    stateDir: path.join(directory, 'state'),
    socket: path.join(run, 'run', 'saltbridge.sock'),
  });
  const master = createMaster({ config });
  t.teardown(() => master.close());
  return master;
}

test('a master in a worker thread has its local socket, for this user alone', async (t) => {
  t.false(isMainThread, 'this test says nothing outside a worker thread');
  const directory = temporaryDirectory(t);
  await masterIn(t, directory).start();
  const socketPath = path.join(directory, 'run', 'saltbridge.sock');
  t.is(statSync(socketPath).mode & 0o777, 0o600);
  t.deepEqual(readdirSync(path.dirname(socketPath)), ['saltbridge.sock']);
  t.is((await connectMaster({ socketPath }).status()).id, 'socket-test');
});

test('a closed master leaves no socket behind', async (t) => {
  const directory = temporaryDirectory(t);
  const master = masterIn(t, directory);
  await master.start();
  await master.close();
  t.deepEqual(readdirSync(path.join(directory, 'run')), []);
});

test('the socket of a master that runs is not taken over', async (t) => {
  const directory = temporaryDirectory(t);
  await masterIn(t, directory).start();
  const other = masterIn(t, temporaryDirectory(t), directory);
  await t.throwsAsync(other.start(), { code: 'ERR_SOCKET' });
  const socketPath = path.join(directory, 'run', 'saltbridge.sock');
  t.is((await connectMaster({ socketPath }).status()).id, 'socket-test');
});
