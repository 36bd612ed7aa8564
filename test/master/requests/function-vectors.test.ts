/** Recorded requests for the other functions, answered by a master without files and peers. */
import test from 'ava';
import { openSendReply } from '../../../minion-protocol/index.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { byVersion, openReply, sessionKey } from '../../helpers/vector-requests.ts';
import {
  base64,
  canonicalWire,
  cases,
  type Json,
  keys,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const noFile = { data: '', dest: '' };

/** What a master answers that has no files, in place of what was recorded. */
const withoutContent = new Map<string, Json>([
  ['_file_hash v0', ''],
  ['_file_hash v2', ''],
  ['_file_hash v3', ''],
  ['_file_hash_and_stat v3', ['', null]],
  ['_file_find v3', { path: '', rel: '' }],
  ['_file_find saltenv in query v3', { path: '', rel: '' }],
  ['_serve_file v0', noFile],
  ['_serve_file v2', noFile],
  ['_serve_file v3', noFile],
  ['_serve_file at end v3', noFile],
  ['_serve_file binary v3', noFile],
  ['_serve_file empty file v3', noFile],
  ['_serve_file gzip 5 v3', noFile],
  ['_file_list v3', []],
  ['_file_list prefix v3', []],
  ['_dir_list v3', []],
  ['_file_list_emptydirs v3', []],
  ['_symlink_list v3', {}],
  // Recorded with file_recv switched on.
  ['_file_recv v3', false],
]);

for (const [version, group] of byVersion(cases(vectorFile('aes_functions'), 'cases'))) {
  test(`answers recorded requests of protocol ${version} as a Salt master without content`, async (t) => {
    const { ask } = await startVectorMaster(t);
    for (const vector of group) {
      const name = text(vector.name);
      const expected = withoutContent.get(name) ?? vector.reply_value ?? null;
      const value = openReply(vector, await ask(base64(vector.request_b64)));
      t.is(canonicalWire(value), canonicalWire(toWireValue(expected)), name);
    }
  });
}

test('a reply is bound to its request, and made with a new IV each time', async (t) => {
  const { ask } = await startVectorMaster(t);
  const [vector] = cases(vectorFile('aes_functions'), 'cases').filter(
    ({ version }) => version === 3,
  );
  const request = base64(vector?.request_b64);
  const [first, second] = [await ask(request), await ask(request)];
  t.notDeepEqual(first, second);
  const nonce = keys.nonce.replace('0', '1');
  t.throws(() => openSendReply(first, { key: sessionKey, version: 3, nonce }), {
    code: 'ERR_NONCE',
  });
});
