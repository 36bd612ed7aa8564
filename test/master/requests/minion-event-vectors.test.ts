/** Recorded events of minions: answered as Salt's master answers; fired where a rule permits. */
import test from 'ava';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { byVersion, openReply } from '../../helpers/vector-requests.ts';
import {
  base64,
  canonicalWire,
  cases,
  type JsonObject,
  keys,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

/** Tags that a minion may fire without a rule of the operator's; Salt lets through the others too. */
const permitted = /^(salt\/minion\/vecminion\/start|minion_start|salt\/beacon\/vecminion\/.+)$/;

const vectors = cases(vectorFile('minion_event'), 'cases');

for (const [version, group] of byVersion(vectors)) {
  test(`answers recorded events of protocol ${version} as Salt, and fires those that need no rule`, async (t) => {
    const master = await startVectorMaster(t);
    let fired = 0;
    for (const vector of group) {
      const events = await master.eventsDuring(async () => {
        const reply = await master.ask(base64(vector.request_b64));
        t.is(openReply(vector, reply), null, text(vector.name));
      });
      const seen = events.map(({ tag, data: { _stamp, ...data } }) => [tag, canonicalWire(data)]);
      t.deepEqual(seen, recordedEvents(vector), text(vector.name));
      fired += seen.length;
    }
    t.true(fired >= 2, 'a start event and beacons');
  });

  test(`counts and names the recorded events of protocol ${version} that no rule permits`, async (t) => {
    const { ask, counters, master } = await startVectorMaster(t);
    for (const vector of group) await ask(base64(vector.request_b64));
    const refused = group.flatMap(askedTags).filter((tag) => !permitted.test(tag));
    t.is((await counters())['signal-default-deny'], refused.length);
    const denials = await master.events.denials();
    t.deepEqual(new Set(denials.map(({ tag }) => tag)), new Set(refused));
    t.true(denials.every(({ minion }) => minion === keys.minionId));
  });
}

function recordedEvents(vector: JsonObject): unknown[] {
  return cases(vector, 'events_fired')
    .filter(({ tag }) => permitted.test(text(tag)))
    .map(({ tag, data }) => [text(tag), canonicalWire(toWireValue(data))]);
}

/** The tags that a request asks for, prefixed ones too. */
function askedTags(vector: JsonObject): string[] {
  const load = vector.request_load;
  if (typeof load !== 'object' || load === null || Array.isArray(load)) return [];
  if (load.events === undefined) return [text(load.tag)];
  const tags = cases(load, 'events').map(({ tag }) => text(tag));
  return load.pretag === null ? tags : tags.flatMap((tag) => [tag, `${load.pretag}/${tag}`]);
}
