import test from 'ava';
import { connectMaster, RemoteError } from '../../client/index.ts';
import { directories, startVectorMaster } from '../helpers/vector-master.ts';
import { keys } from '../helpers/vectors.ts';

test('a plan is the same over the local socket', async (t) => {
  const { master, directory } = await startVectorMaster(t);
  const client = connectMaster({ socketPath: directories(directory).socket });
  const request = { tgt: `G|@os|x or L@${keys.minionId},gone`, tgtType: 'compound' };
  const plan = await client.jobs.plan(request);
  t.deepEqual(plan, await master.jobs.plan(request));
  t.deepEqual(
    plan.minions.map(({ reason }) => reason),
    ['matched', 'missing'],
  );
});

test('a delimiter goes over the local socket, and an empty one is refused', async (t) => {
  const { directory } = await startVectorMaster(t);
  const client = connectMaster({ socketPath: directories(directory).socket });
  const request = { tgt: 'os|x', tgtType: 'grain', fun: 'test.ping' };
  const run = client.jobs.run({ ...request, delimiter: '|' })[Symbol.asyncIterator]();
  t.like(await run.next(), { value: { type: 'published', minions: [keys.minionId] } });
  await run.return?.();
  const refused = client.jobs.run({ ...request, delimiter: '' })[Symbol.asyncIterator]();
  await t.throwsAsync(refused.next(), { instanceOf: RemoteError, code: 'ERR_BAD_TGT' });
});
