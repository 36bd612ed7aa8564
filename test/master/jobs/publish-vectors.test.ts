/**
 * Jobs with the targets of recorded publications: the load that leaves is the recorded one, and
 * goes to the recorded topics. What the recorded master was asked besides is left out.
 */
import test from 'ava';
import {
  createMemoryTransport,
  isWireMap,
  type MasterTransport,
  type OutgoingPublication,
  openPublication,
  type WireMap,
} from '../../../minion-protocol/index.ts';
import { BROADCAST_TOPIC, minionTopic } from '../../../minion-protocol/transport/transport.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { aesKey } from '../../helpers/vector-requests.ts';
import {
  canonicalWire,
  cases,
  type JsonObject,
  keys,
  object,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const accepted = [
  { directory: 'minions', id: keys.minionId, publicPem: pem('minion').publicPem },
  { directory: 'minions', id: 'web1', publicPem: pem('minion2').publicPem },
] as const;

/** The fields of a publication that a target decides. */
const targetFields = ['tgt', 'tgt_type', 'delimiter'];

const vectors = cases(vectorFile('publish'), 'cases').filter(
  ({ load, master_opts: options }) =>
    typeof object(load).fun === 'string' && object(options).order_masters !== true,
);

for (const vector of vectors) {
  test(`a job like "${vector.name}" is published as a real master does`, async (t) => {
    const sent: OutgoingPublication[] = [];
    const { master } = await startVectorMaster(t, { keys: accepted, transport: recording(sent) });
    const recorded = object(vector.load);
    const { tgt } = recorded;
    const job = master.jobs.run({
      tgt: Array.isArray(tgt) ? tgt.map(text) : text(tgt),
      tgtType: text(recorded.tgt_type),
      ...(recorded.delimiter === undefined ? {} : { delimiter: text(recorded.delimiter) }),
      fun: text(recorded.fun),
    });
    await job[Symbol.asyncIterator]().next();
    // Salt publishes also where nobody matches; a master that knows so has nothing to send.
    if (recorded.tgt === 'none*') {
      t.deepEqual(sent, []);
      return;
    }
    const [publication] = sent;
    t.is(canonicalWire(targetOf(publication)), canonicalWire(expectedTarget(recorded)));
    if (object(vector.master_opts).zmq_filtering !== true) return;
    t.deepEqual(topicsOf(publication).sort(), recordedTopics(vector).sort());
  });
}

/** A transport to nobody that keeps what it was given. */
function recording(sent: OutgoingPublication[]): MasterTransport {
  const { master } = createMemoryTransport();
  return {
    name: master.name,
    listen: (handler) => master.listen(handler),
    publish: (publication) => {
      sent.push(publication);
      return master.publish(publication);
    },
    disconnect: (id) => master.disconnect(id),
    subscribers: () => master.subscribers(),
    refusals: () => master.refusals(),
    close: (graceMs) => master.close(graceMs),
  };
}

function targetOf(publication: OutgoingPublication | undefined): WireMap {
  const load = publication && openPublication(publication.envelope, { key: aesKey });
  if (!isWireMap(load)) throw new TypeError('nothing was published');
  return pick(load);
}

/** A list given as text is published as a list. */
function expectedTarget(recorded: JsonObject): WireMap {
  const load = toWireValue(recorded);
  if (!isWireMap(load)) throw new TypeError('no load');
  const { tgt_type: tgtType, tgt } = load;
  const isListText = tgtType === 'list' && typeof tgt === 'string';
  return pick(isListText ? { ...load, tgt: tgt.split(',') } : load);
}

function pick(load: WireMap): WireMap {
  return Object.fromEntries(Object.entries(load).filter(([name]) => targetFields.includes(name)));
}

function topicsOf(publication: OutgoingPublication | undefined): string[] {
  return publication?.minionIds?.map(minionTopic) ?? [BROADCAST_TOPIC];
}

function recordedTopics({ zeromq_topics: topics }: JsonObject): string[] {
  if (!Array.isArray(topics)) throw new TypeError('no topics');
  return topics.map(text);
}
