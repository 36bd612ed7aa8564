import test from 'ava';
import {
  encodePackedReply,
  encodeSendReply,
  generateKeyString,
  openSendReply,
  packWire,
  parseKeyString,
} from '../../minion-protocol/index.ts';
import { packFileChunk } from '../../minion-protocol/request.ts';

const sizes = [0, 1, 31, 32, 255, 65_535, 65_536, 1_048_576];

for (const size of sizes) {
  test(`a part of ${size} bytes is packed as the map that it is`, (t) => {
    const data = Buffer.alloc(size, 0xff);
    for (const rest of [{ dest: 'a/b' }, { dest: 'a/b', gzip: 5 }]) {
      t.deepEqual(Buffer.concat(packFileChunk({ data, ...rest })), packWire({ data, ...rest }));
    }
  });
}

test('a reply that was packed before opens to what one packed now opens to', (t) => {
  const key = parseKeyString(generateKeyString());
  const context = { version: 3, nonce: 'a'.repeat(32) } as const;
  const value = { data: Buffer.alloc(100_003, 0xfe), dest: 'x' };
  const plain = openSendReply(encodeSendReply(key, value, context), { key, ...context });
  const pieces = encodePackedReply(key, packFileChunk(value), context);
  t.deepEqual(openSendReply(pieces, { key, ...context }), plain);
});
