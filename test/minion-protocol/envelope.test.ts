import test from 'ava';
import { openValue, parseKeyString, sealValue } from '../../minion-protocol/crypticle.ts';
import { packWire, type WireMap, type WireValue } from '../../minion-protocol/payload.ts';
import {
  type CheckedLoad,
  checkLoad,
  decodeEnvelope,
  encodeRequest,
  isNewMinionId,
  isNonce,
  isValidMinionId,
  type RequestEnvelope,
  type SealedEnvelope,
} from '../../minion-protocol/request.ts';
import { isMinionToken, parsePublicKey } from '../../minion-protocol/rsa.ts';
import { firstMessageWith } from '../helpers/first-message.ts';
import {
  base64,
  canonical,
  cases,
  keys,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../helpers/vectors.ts';

const noTtl = { nowSeconds: 0, ttlSeconds: 0 };
const aes = parseKeyString(keys.aes);
const session = parseKeyString(keys.session);
const minionKey = parsePublicKey(pem('minion').publicPem);

/** What a master does with a request up to its function: gives the reply of a refusal, if any. */
function refusalOf(bytes: Buffer, options = noTtl): WireValue | undefined {
  const decoded = decodeEnvelope(bytes);
  if (!decoded.ok) return decoded.reply;
  const { envelope } = decoded;
  let load: WireValue;
  try {
    load = loadOf(envelope);
  } catch {
    return 'bad load';
  }
  const checked = checkLoad(envelope, load, options);
  if (!checked.ok) return checked.reply;
  const { tok, id } = checked.request;
  if (tok === undefined || id === undefined) return undefined;
  return isMinionToken(minionKey, tok) ? undefined : 'bad load';
}

function loadOf(envelope: RequestEnvelope): WireValue {
  if (envelope.enc === 'clear') return envelope.load;
  return openValue(envelope.version === 3 ? session : aes, envelope.load);
}

/** Taken by Salt's channel, refused by a handler or answered: nothing for this file to refuse. */
const passing = new Set([
  'handler raises',
  'handler gives unknown reply kind',
  'clear ping echoes',
  'aes v2 no tok is fine',
  'aes v2 tok but no id',
]);

for (const vector of cases(vectorFile('errors'), 'cases')) {
  const name = text(vector.name);
  // Salt answers this one; without a nonce ours cannot tie a reply to it [THREATS G-04].
  if (name === 'prefix missing in crypticle gives empty map') continue;
  const expired = name.includes('request_server_ttl');
  const options = expired ? { nowSeconds: Date.UTC(2099, 0) / 1000, ttlSeconds: 60 } : noTtl;
  test(`a request that is "${name}" is ${passing.has(name) ? 'heard' : 'answered as Salt does'}`, (t) => {
    const reply = refusalOf(base64(vector.request_b64), options);
    if (passing.has(name)) t.is(reply, undefined);
    else t.deepEqual(packWire(reply ?? null), base64(vector.reply_b64));
  });
}

test('bytes that are not MessagePack are answered with a map', (t) => {
  const decoded = decodeEnvelope(Buffer.from([0xc1]));
  t.like(decoded, { ok: false, code: 'ERR_BAD_PAYLOAD' });
  t.is(canonical(decoded.ok ? null : decoded.reply), canonical({ msg: 'bad load' }));
});

function code(bytes: Uint8Array): string {
  const decoded = decodeEnvelope(bytes);
  return decoded.ok ? 'ok' : decoded.code;
}

const clear = { enc: 'clear', load: { cmd: 'ping' } };

test('versions 0 to 3 are heard, a missing one is 0', (t) => {
  for (const version of [0, 1, 2, 3]) t.is(code(packWire({ ...clear, version })), 'ok');
  const decoded = decodeEnvelope(packWire(clear));
  t.is(decoded.ok ? decoded.envelope.version : undefined, 0);
});

test('anything else as a version is refused', (t) => {
  for (const version of [4, -1, 1.5, '2', null, true, 2n ** 60n, [2], {}]) {
    t.is(code(packWire({ ...clear, version })), 'ERR_BAD_ENVELOPE');
  }
});

test('an envelope with a key twice or a key that is not text is refused', (t) => {
  const twice = Buffer.from('83a3656e63a5636c656172a46c6f616480a46c6f616480', 'hex');
  t.is(code(twice), 'ERR_BAD_PAYLOAD');
  const mixed = new Map<WireValue, WireValue>([...Object.entries(clear), [1, 2]]);
  t.is(code(packWire(mixed)), 'ERR_BAD_PAYLOAD');
  t.is(code(packWire({ enc: 'clear', load: new Map([[1, 2]]) })), 'ERR_BAD_PAYLOAD');
});

test('a clear request is shallow and at most 1 MiB, an encrypted one may be larger', (t) => {
  let deep: WireValue = null;
  for (let level = 0; level < 8; level += 1) deep = [deep];
  t.is(code(packWire({ enc: 'clear', load: { deep } })), 'ERR_PAYLOAD_LIMIT');
  const large = Buffer.alloc(1024 * 1024, 0xff);
  t.is(code(packWire({ enc: 'clear', load: { large } })), 'ERR_PAYLOAD_LIMIT');
  t.is(code(packWire({ enc: 'aes', load: large })), 'ok');
  t.is(
    code(packWire({ enc: 'aes', load: Buffer.alloc(17 * 1024 * 1024, 0xff) })),
    'ERR_PAYLOAD_LIMIT',
  );
});

test('an unknown enc and fields of wrong types are refused', (t) => {
  const load = Buffer.alloc(64, 0xff);
  const wrong: WireMap[] = [
    { enc: 'pub', load },
    { enc: null, load },
    { enc: 'aes', load: {} },
    { enc: 'aes' },
    { enc: 'aes', load, enc_algo: 1 },
    { enc: 'aes', load, sig_algo: 'x'.repeat(65) },
  ];
  for (const message of wrong) t.is(code(packWire(message)), 'ERR_BAD_ENVELOPE');
});

test('an encrypted load that happens to be text is turned back into its bytes', (t) => {
  const decoded = decodeEnvelope(packWire({ enc: 'aes', load: 'žluť' }));
  const load = decoded.ok && decoded.envelope.enc === 'aes' ? decoded.envelope.load : undefined;
  t.deepEqual(load && Buffer.from(load), Buffer.from('žluť'));
});

const ids: Record<string, boolean> = {
  web1: true,
  'WEB 1.example.org': true,
  'a..b': true,
  žluť: true,
  '...': true,
  '': false,
  '.': false,
  '..': false,
  'a/b': false,
  'a\\b': false,
  'a\0b': false,
  'a\nb': false,
  'a\u0085b': false,
  '\ud800': false,
};

for (const [id, valid] of Object.entries(ids)) {
  test(`the id ${JSON.stringify(id)} is ${valid ? 'valid' : 'refused'}`, (t) => {
    t.is(isValidMinionId(id), valid);
  });
}

test('an id has at most 255 bytes and is text', (t) => {
  t.true(isValidMinionId('ž'.repeat(127)));
  t.false(isValidMinionId('ž'.repeat(128)));
  for (const id of [null, undefined, 5, ['a'], new Uint8Array(1)]) t.false(isValidMinionId(id));
});

test('a nonce is 32 lower-case hex digits and nothing else', (t) => {
  t.true(isNonce(keys.nonce));
  const wrong = [
    '',
    keys.nonce.slice(1),
    `${keys.nonce}0`,
    `${keys.nonce}\n`,
    'A'.repeat(32),
    null,
    1,
  ];
  for (const nonce of wrong) t.false(isNonce(nonce));
});

const envelope: SealedEnvelope = {
  enc: 'aes',
  version: 3,
  id: 'web1',
  encAlgo: 'OAEP-SHA1',
  sigAlgo: 'PKCS1v15-SHA1',
  load: new Uint8Array(),
};
const load: WireMap = {
  cmd: 'x',
  id: 'web1',
  nonce: keys.nonce,
  ts: 1000,
  tok: Buffer.alloc(256, 255),
};
const window = { nowSeconds: 1300, ttlSeconds: 300 };

function checkCode(checked: CheckedLoad): string {
  return checked.ok ? 'ok' : checked.code;
}

test('what a function gets has neither token nor nonce', (t) => {
  const checked = checkLoad(envelope, load, window);
  if (!checked.ok) return t.fail();
  t.is(canonical(checked.request.load), canonical({ cmd: 'x', id: 'web1', ts: 1000 }));
  t.like(checked.request, { cmd: 'x', id: 'web1', nonce: keys.nonce });
  t.is(checked.request.tok?.length, 256);
});

test('a time stamp may be as old or as far ahead as the window, missing or odd never', (t) => {
  const codes = (ts: WireValue) => checkCode(checkLoad(envelope, { ...load, ts }, window));
  t.deepEqual([1000, 1600].map(codes), ['ok', 'ok']);
  for (const ts of [999, 1601, '1300', 1300.5, null, 2n ** 60n]) t.is(codes(ts), 'ERR_EXPIRED');
  const { ts: _ts, ...without } = load;
  t.is(checkCode(checkLoad(envelope, without, window)), 'ERR_EXPIRED');
  t.is(checkCode(checkLoad(envelope, without, noTtl)), 'ok');
});

test('versions 2 and 3 need a nonce of the grammar, versions 0 and 1 none', (t) => {
  for (const nonce of ['', 'x', keys.nonce.toUpperCase(), keys.nonce.repeat(2), null, 5]) {
    for (const version of [2, 3] as const) {
      const checked = checkLoad({ ...envelope, version }, { ...load, nonce }, window);
      t.is(checkCode(checked), 'ERR_NONCE');
      t.is(checked.ok ? '' : checked.reply, 'bad load');
    }
    t.is(checkCode(checkLoad({ ...envelope, version: 0 }, { ...load, nonce }, window)), 'ok');
  }
});

test('in version 3 the load names the id of the envelope and has a token', (t) => {
  t.is(checkCode(checkLoad(envelope, { ...load, id: 'web2' }, window)), 'ERR_BAD_ID');
  const { tok: _tok, ...without } = load;
  t.is(checkCode(checkLoad(envelope, without, window)), 'ERR_TOKEN');
  t.is(checkCode(checkLoad({ ...envelope, version: 2 }, without, window)), 'ok');
  for (const tok of [null, 5, [], Buffer.alloc(1025, 255)]) {
    t.is(checkCode(checkLoad(envelope, { ...load, tok }, window)), 'ERR_TOKEN');
    t.is(checkCode(checkLoad({ ...envelope, version: 0 }, { ...load, tok }, window)), 'ERR_TOKEN');
  }
});

test('a token that happens to be text is bytes', (t) => {
  const checked = checkLoad(envelope, { ...load, tok: 'abc' }, window);
  t.deepEqual(checked.ok ? checked.request.tok : undefined, Buffer.from('abc'));
});

test('an encrypted load that is no map of text keys is refused', (t) => {
  for (const value of [null, 'text', [], new Map([[1, 2]]), Buffer.alloc(1)]) {
    const checked = checkLoad(envelope, value, window);
    t.like(checked, { ok: false, reply: 'payload and load must be a dict' });
  }
});

test('an id of a type that is not text is named only if it is a number', (t) => {
  const reply = (id: WireValue) => {
    const checked = checkLoad(envelope, { ...load, id }, window);
    return checked.ok ? undefined : checked.reply;
  };
  t.is(reply(7), 'bad load: id 7 is not a string');
  for (const id of [null, ['secret'], { a: 1 }, Buffer.from('ff', 'hex')])
    t.is(reply(id), 'bad load');
});

test('a request that a version cannot carry is not packed', (t) => {
  const base = { enc: 'aes', key: aes, load: {} } as const;
  t.throws(() => encodeRequest({ ...base, version: 2 }), { instanceOf: TypeError });
  t.throws(() => encodeRequest({ ...base, version: 3, nonce: keys.nonce }), {
    instanceOf: TypeError,
  });
});

for (const file of ['return', 'minion_event', 'pillar', 'aes_functions']) {
  for (const [index, vector] of cases(vectorFile(file), 'cases').entries()) {
    if (vector.request_b64 === undefined || vector.request_load === undefined) continue;
    test(`${file} request ${index} (${vector.name ?? 'unnamed'}) is opened and packed again`, (t) => {
      const bytes = base64(vector.request_b64);
      const decoded = decodeEnvelope(bytes);
      if (!decoded.ok || decoded.envelope.enc !== 'aes') return t.fail();
      const { version, load: blob } = decoded.envelope;
      const key = version === 3 ? session : aes;
      const opened = openValue(key, blob);
      t.is(canonical(opened), canonical(toWireValue(vector.request_load)));
      const first = firstMessageWith(key.text, blob.subarray(0, 16));
      t.deepEqual(sealValue(first.key, opened, { random: first.random }), Buffer.from(blob));
      t.is(refusalOf(bytes), undefined);
    });
  }
}

test('a minion packs the requests of the vectors to the same bytes', (t) => {
  const identity = (map: WireMap) => ({ id: String(map.id), ts: Number(map.ts), tok: map.tok });
  let compared = 0;
  for (const vector of cases(vectorFile('return'), 'cases')) {
    const bytes = base64(vector.request_b64);
    const decoded = decodeEnvelope(bytes);
    const map = toWireValue(vector.request_load);
    if (!decoded.ok || decoded.envelope.enc !== 'aes') return t.fail();
    const { version, load: blob, encAlgo, sigAlgo } = decoded.envelope;
    const { nonce, ts, tok, ...plain } = map as WireMap;
    const who = identity({ ...plain, ts: ts ?? 0, tok: tok ?? null });
    const packed = encodeRequest({
      enc: 'aes',
      version,
      ...firstMessageWith(version === 3 ? keys.session : keys.aes, blob.subarray(0, 16)),
      load: plain,
      ...(typeof nonce === 'string' ? { nonce } : {}),
      ...(who.tok instanceof Uint8Array
        ? { identity: { ...who, tok: who.tok }, encAlgo, sigAlgo }
        : {}),
    });
    // An object lists keys that look like indices first; none of these loads has any.
    t.deepEqual(packed, bytes, text(vector.name));
    compared += 1;
  }
  t.true(compared > 10);
});

test('ids of new minions are letters and digits of any script, and a few signs', (t) => {
  const good = [
    'a',
    '7',
    'web-1.example.org',
    'Ž',
    'вэб-1',
    '机器01',
    '١٢',
    'a:b@c+d_e',
    'a'.repeat(128),
  ];
  for (const id of good) t.true(isNewMinionId(id), id);
  const bad = [
    ...[
      '',
      '.',
      '..',
      '*',
      'atk-*',
      '[a]',
      '{a,b}',
      'a?',
      'a b',
      ' a',
      'a\n',
      'a\t',
      'a/b',
      'a\\b',
    ],
    ...[
      '-a',
      '.a',
      '_a',
      ':a',
      '@a',
      '+a',
      'a..b',
      'a,b',
      'a;b',
      "a'b",
      'a"b',
      'a<b',
      'a|b',
      'a&b',
    ],
    ...['a\u200bb', 'a\u202eb', 'a\u2066b', 'a\ufeffb', 'a\u00adb', 'a\u3164b', 'a\ufe0fb', 'a\0b'],
    ...[
      'e\u0301',
      'a\u034fb',
      'a\u00a0b',
      'a\u2028b',
      '\ud800',
      '😀',
      'a'.repeat(129),
      'ž'.repeat(128),
    ],
  ];
  for (const id of bad) t.false(isNewMinionId(id), JSON.stringify(id));
});
