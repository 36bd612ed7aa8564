/**
 * The cost of many concurrent requests. This test has its own file, because it counts operations of
 * the whole process.
 */
import { createHook } from 'node:async_hooks';
import path from 'node:path';
import test from 'ava';
import { layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';

const listed = recorded('aes_functions', '_file_list v3');
const hashed = recorded('aes_functions', '_file_hash v3');
const count = 500;

/** Returns the number of file system requests that `work` makes. */
async function fileSystemRequests(work: () => Promise<unknown>): Promise<number> {
  let requests = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type.startsWith('FSREQ')) requests += 1;
    },
  });
  hook.enable();
  await work();
  hook.disable();
  return requests;
}

test('500 simultaneous requests for lists read no directory, and requests for a hash share one look-up', async (t) => {
  const root = path.join(temporaryDirectory(t), 'srv');
  const names = Array.from({ length: 200 }, (_, index) => `d${index}/file`);
  layOut(root, Object.fromEntries([...names, 'a.txt'].map((name) => [name, name])));
  const master = await startVectorMaster(t, { config: { fileRoots: { base: [root] } } });
  const ask = async (vector: typeof listed): Promise<unknown> => {
    const nonce = freshNonce();
    return openReply(vector, await master.ask(altered(vector, { load: { nonce } })), nonce);
  };
  const first = await ask(listed);
  t.is(Array.isArray(first) ? first.length : 0, 201);
  const all = (vector: typeof listed) => () =>
    Promise.all(Array.from({ length: count }, () => ask(vector)));
  t.is(await fileSystemRequests(all(listed)), 0);
  const one = await fileSystemRequests(() => ask(hashed));
  t.true(one > 0);
  const many = await fileSystemRequests(all(hashed));
  t.true(many <= count / 5, `${many} for ${count}, ${one} for one`);
});
