/** Recorded requests for files, answered from the files that they were recorded with. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import test, { type ExecutionContext } from 'ava';
import {
  isWireMap,
  openSendReply,
  type WireMap,
  type WireValue,
  wireBytes,
} from '../../../minion-protocol/index.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { byVersion, openReply, sessionKey } from '../../helpers/vector-requests.ts';
import {
  base64,
  canonicalWire,
  cases,
  type JsonObject,
  keys,
  object,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const vectors = vectorFile('aes_functions');
const files = cases(vectors, 'cases').filter(({ name }) =>
  /^_(file|serve|dir|symlink|master_opts)/.test(text(name)),
);

async function startWithFiles(t: ExecutionContext): Promise<VectorMaster> {
  const setup = object(vectors.setup);
  const root = path.join(temporaryDirectory(t), 'srv');
  layOut(root, {
    ...Object.fromEntries(
      Object.entries(object(setup.files)).map(([name, content]) => [name, base64(content)]),
    ),
    empty: null,
    'link.txt': { link: 'a.txt' },
  });
  return startVectorMaster(t, { config: { fileRoots: { base: [root] }, fileRecv: true } });
}

/** What differs from machine to machine, or from one gzip to another, is taken out. */
function comparable(value: WireValue): WireValue {
  if (Array.isArray(value))
    return value.length === 10 ? comparableStat(value) : value.map(comparable);
  if (!isWireMap(value)) return value;
  const { gzip, data, ...rest } = value;
  const plain = gzip === undefined ? data : gunzipSync(wireBytes(data) ?? '');
  const whole: WireMap = { ...rest, ...(plain === undefined ? {} : { data: plain }) };
  if (gzip !== undefined) whole.gzip = gzip;
  // Where a file lies on the master is not told; only that it is there.
  if (typeof whole.path === 'string') whole.path = whole.path !== '';
  if (whole.stat !== undefined) whole.stat = comparable(whole.stat);
  return whole;
}

function comparableStat([mode, , , , , , size]: readonly WireValue[]): WireValue {
  return [mode ?? null, size ?? null];
}

for (const [version, group] of byVersion(files)) {
  test(`answers recorded requests for files of protocol ${version} as Salt`, async (t) => {
    const { ask } = await startWithFiles(t);
    for (const vector of group) {
      const value = openReply(vector, await ask(base64(vector.request_b64)));
      const expected = toWireValue(vector.reply_value);
      t.is(
        canonicalWire(comparable(value)),
        canonicalWire(comparable(expected)),
        text(vector.name),
      );
    }
    t.true(group.length > 0);
  });
}

test('a recorded push of a file is kept for that minion alone', async (t) => {
  const { ask, directory } = await startWithFiles(t);
  const push = (name: string): JsonObject => {
    const found = files.find((vector) => vector.name === name);
    if (found === undefined) throw new Error(`no case ${name}`);
    return found;
  };
  const taken = push('_file_recv v3');
  t.is(openReply(taken, await ask(base64(taken.request_b64))), true);
  const place = path.join(directory, 'cache', 'minions', keys.minionId, 'files', 'tmp', 'f.bin');
  t.deepEqual(readFileSync(place), Buffer.from('0001fffe', 'hex'));
});

test('the content of a file is byte for byte in the reply as minions read it', async (t) => {
  const { ask } = await startWithFiles(t);
  const vector = files.find(({ name }) => name === '_serve_file binary v3');
  if (vector === undefined) throw new Error('no such case');
  const raw = { version: 3, key: sessionKey, nonce: keys.nonce, raw: true } as const;
  const reply = openSendReply(await ask(base64(vector.request_b64)), raw);
  t.deepEqual(reply, openSendReply(base64(vector.reply_b64), raw));
});
