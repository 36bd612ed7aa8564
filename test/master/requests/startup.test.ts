/**
 * The start of real minions of every release. Recorded are the order of the requests, the names
 * of their fields and the shape of the answers; the bytes are made here, with keys of our own, from
 * the recorded form. So this proves order and shape, not the codec: other tests have its bytes.
 */
import test, { type ExecutionContext } from 'ava';
import {
  type CrypticleKey,
  encodeRequest,
  isWireMap,
  minionToken,
  openPrivateReply,
  openSendReply,
  type ProtocolVersion,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  rsaDecrypt,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '../../../minion-protocol/index.ts';
import { RECORDED_AT, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { freshNonce } from '../../helpers/vector-requests.ts';
import {
  cases,
  type JsonObject,
  object,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const minionId = 'minion1';
const { privatePem, publicPem } = pem('minion2');
const privateKey = parsePrivateKey(privatePem);
const recordings = object(vectorFile('startup_transcripts').versions);

for (const release of Object.keys(recordings)) {
  test(`a minion of release ${release} is answered as it was by Salt, from start to last return`, async (t) => {
    const master = await startVectorMaster(t, {
      keys: [{ directory: 'minions', id: minionId, publicPem }],
    });
    const minion = new RecordedMinion(t, master);
    const steps = cases(recordings, release);
    for (const [index, step] of steps.entries()) {
      if (step.step === 'publication') await minion.publish(step);
      if (step.step === 'request') await minion.request(step, steps[index + 1] ?? {});
    }
    t.true(minion.answers >= 12, 'the whole recording was replayed');
  });
}

/** A minion that says what was recorded, with keys and job ids of this test. */
class RecordedMinion {
  readonly #t: ExecutionContext;
  readonly #master: VectorMaster;
  #aes: CrypticleKey | undefined;
  #session: CrypticleKey | undefined;
  #jid = '';
  answers = 0;

  constructor(t: ExecutionContext, master: VectorMaster) {
    this.#t = t;
    this.#master = master;
  }

  /** Has the master publish what was recorded; the minion is the only one there. */
  async publish(step: JsonObject): Promise<void> {
    const load = map(toWireValue(step.load));
    const updates = this.#master.master.jobs.run({ tgt: minionId, fun: String(load.fun) });
    for await (const update of updates) {
      if (update.type === 'published') this.#jid = update.jid;
      break;
    }
  }

  async request(step: JsonObject, reply: JsonObject): Promise<void> {
    this.answers += 1;
    if (step.value !== undefined) await this.#signIn(map(toWireValue(step.value)), reply);
    else await this.#ask(step, reply);
  }

  async #signIn(recorded: WireMap, reply: JsonObject): Promise<void> {
    const version = protocolVersion(recorded.version);
    const load: WireMap = { ...map(recorded.load ?? null), pub: publicPem };
    const answer = map(
      unpackWire(await this.#master.ask(encodeRequest({ enc: 'clear', version, load }))),
    );
    const accepted = version < 2 ? answer : map(unpackWire(bytes(answer.load)));
    const recordedMap = object(version < 2 ? reply.value : reply.signed_load);
    this.#t.deepEqual(Object.keys(accepted).sort(), Object.keys(recordedMap).sort());
    if (version >= 2) this.#t.is(accepted.nonce, load.nonce);
    this.#aes = this.#keyIn(accepted.aes);
    this.#session = this.#keyIn(accepted.session);
  }

  #keyIn(value: WireValue | undefined): CrypticleKey {
    return parseKeyString(rsaDecrypt(privateKey, bytes(value), 'OAEP-SHA1').toString('latin1'));
  }

  async #ask(step: JsonObject, reply: JsonObject): Promise<void> {
    const version = protocolVersion(object(step.envelope).version);
    const key = version === 3 ? this.#session : this.#aes;
    if (key === undefined) throw new Error('the recording does not begin with a sign-in');
    const { nonce: _nonce, ts: _ts, tok, ...recorded } = map(toWireValue(step.load));
    const nonce = freshNonce();
    const token = minionToken(privateKey);
    const load: WireMap = {
      ...recorded,
      ...(typeof recorded.jid === 'string' ? { jid: this.#jid } : {}),
      ...(tok === undefined || version === 3 ? {} : { tok: token }),
    };
    const answer = await this.#master.ask(
      encodeRequest({
        enc: 'aes',
        version,
        key,
        load,
        ...(version < 2 ? {} : { nonce }),
        ...(version < 3 ? {} : { identity: { id: minionId, ts: RECORDED_AT / 1000, tok: token } }),
      }),
    );
    if (reply.private !== undefined) this.#openPillar(answer, version, nonce);
    else this.#compare(openSendReply(answer, { key, version, nonce }), load, reply);
  }

  #openPillar(answer: Uint8Array, version: ProtocolVersion, nonce: string): void {
    const pillar = openPrivateReply(answer, {
      version,
      nonce,
      minionKey: privateKey,
      masterKey: parsePublicKey(pem('master').publicPem),
      encAlgo: 'OAEP-SHA1',
      sigAlgo: 'PKCS1v15-SHA1',
    });
    this.#t.deepEqual(pillar, Object.create(null));
  }

  /** Files were recorded with content, which a master without files answers in its own way. */
  #compare(value: WireValue, { cmd }: WireMap, reply: JsonObject): void {
    const recorded = toWireValue(reply.value);
    if (cmd === '_file_hash' || cmd === '_file_hash_and_stat') return;
    const isSame = shapeOf(value) === shapeOf(recorded) || cmd === '_file_find';
    this.#t.true(isSame, `${text(String(cmd))}: ${shapeOf(value)} for ${shapeOf(recorded)}`);
  }
}

/** The types in a value, and the names in a map. */
function shapeOf(value: WireValue): string {
  if (isWireMap(value)) return `{${Object.keys(value).sort().join()}}`;
  if (Array.isArray(value)) return 'list';
  return value === null ? 'null' : typeof value;
}

function protocolVersion(version: unknown): ProtocolVersion {
  if (version === undefined) return 0;
  if (version === 2 || version === 3) return version;
  throw new TypeError('an unknown version');
}

function map(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

function bytes(value: WireValue | undefined): Uint8Array {
  const found = wireBytes(value);
  if (found === undefined) throw new TypeError('not bytes');
  return found;
}
