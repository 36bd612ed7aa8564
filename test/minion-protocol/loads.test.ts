import test from 'ava';
import {
  type MinionEventLoad,
  type ParsedLoad,
  parseMinionEventLoad,
  parsePillarLoad,
  parseReturnLoad,
} from '../../minion-protocol/loads.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/payload.ts';
import { canonical, cases, object, toWireValue, vectorFile } from '../helpers/vectors.ts';

function map(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

function accepted<Load>(parsed: ParsedLoad<Load>): Load {
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

for (const [index, vector] of cases(vectorFile('return'), 'cases').entries()) {
  test(`the return ${index} (${vector.name}) is taken whole`, (t) => {
    const load = map(toWireValue(vector.request_load));
    t.is(canonical(accepted(parseReturnLoad(load))), canonical(load));
  });
}

function requestedTags(load: MinionEventLoad): string[] {
  if (load.form === 'single') return [load.tag];
  if (load.form === 'empty') return [];
  const { events, pretag } = load;
  return events.flatMap(({ tag }) => (pretag === undefined ? [tag] : [tag, `${pretag}/${tag}`]));
}

for (const [index, vector] of cases(vectorFile('minion_event'), 'cases').entries()) {
  test(`the event request ${index} (${vector.name}) names the events that Salt fires`, (t) => {
    const load = map(toWireValue(vector.request_load));
    const parsed = accepted(parseMinionEventLoad(load));
    const fired = cases(vector, 'events_fired').map((event) => event.tag);
    // Forbidden tags are asked for, and fired by nobody.
    t.deepEqual(
      fired.filter((tag) => !requestedTags(parsed).includes(String(tag))),
      [],
    );
    if (parsed.form === 'single') t.deepEqual(fired, [parsed.tag]);
    if (parsed.form === 'empty') t.deepEqual(fired, []);
  });
}

for (const [index, vector] of cases(vectorFile('pillar'), 'cases').entries()) {
  test(`the pillar request ${index} (${vector.name}) is read`, (t) => {
    const parsed = accepted(parsePillarLoad(map(toWireValue(vector.request_load))));
    const expected = object(vector.request_load);
    t.is(canonical(parsed.grains ?? null), canonical(toWireValue(expected.grains)));
    t.like(parsed, { id: 'vecminion', ver: '2', saltenv: undefined, clean_cache: false });
  });
}

for (const [release, steps] of Object.entries(object(vectorFile('startup_transcripts').versions))) {
  test(`every load that ${release} sends from its start on is taken`, (t) => {
    let seen = 0;
    for (const step of Array.isArray(steps) ? steps.map(object) : []) {
      if (step.step !== 'request' || step.load === undefined) continue;
      const load = map(toWireValue(step.load));
      const parse = {
        _return: parseReturnLoad,
        _minion_event: parseMinionEventLoad,
        _pillar: parsePillarLoad,
      }[String(load.cmd)];
      const parsed = parse?.(load);
      if (parsed === undefined) continue;
      t.true(parsed.ok, String(load.cmd));
      seen += 1;
    }
    t.true(seen >= 5);
  });
}

const returned: WireMap = { id: 'web1', jid: 'req', return: null };

test('a return needs an id, a jid and a value, and bounds what it names', (t) => {
  t.true(parseReturnLoad(returned).ok);
  const wrong: WireMap[] = [
    { ...returned, id: '../web1' },
    { ...returned, id: 5 },
    { ...returned, jid: '' },
    { ...returned, jid: '2'.repeat(65) },
    { ...returned, jid: { a: 1 } },
    { ...returned, fun: 5 },
    { ...returned, fun: [['nested']] },
    { ...returned, fun: Array.from({ length: 1001 }, () => 'f') },
    { ...returned, out: 'x'.repeat(1025) },
    { ...returned, user: {} },
    { id: 'web1', jid: 'req' },
  ];
  for (const load of wrong) t.false(parseReturnLoad(load).ok, JSON.stringify(Object.keys(load)));
});

test('a reason names the field and not what was in it', (t) => {
  const parsed = parseReturnLoad({ ...returned, jid: ['planted secret'] });
  t.false(parsed.ok);
  const reason = parsed.ok ? '' : parsed.reason;
  t.true(reason.startsWith('jid:'), reason);
  t.false(reason.includes('planted'));
});

test('an event request has bounded tags and events', (t) => {
  const event = { tag: 'a', data: {} };
  t.true(parseMinionEventLoad({ events: Array(1000).fill(event) }).ok);
  const wrong: WireMap[] = [
    { events: Array(1001).fill(event) },
    { events: [{ data: 1 }] },
    { events: ['a'] },
    { events: { tag: 'a' } },
    {
      events: [
        new Map<WireValue, WireValue>([
          ['tag', 'a'],
          [1, 2],
        ]),
      ],
    },
    { tag: 5 },
    { tag: 'x'.repeat(1025) },
    { tag: 'a', pretag: 7 },
  ];
  for (const load of wrong) t.false(parseMinionEventLoad(load).ok);
});

test('an event without data is its own data, an empty request fires nothing', (t) => {
  const parsed = accepted(parseMinionEventLoad({ events: [{ tag: 'a', x: 1 }], pretag: null }));
  t.like(parsed, { form: 'batch', pretag: undefined });
  const data = parsed.form === 'batch' ? parsed.events[0]?.data : undefined;
  t.is(canonical(data ?? null), canonical({ tag: 'a', x: 1 }));
  t.like(accepted(parseMinionEventLoad({})), { form: 'empty' });
});

test('a pillar request with odd fields counts them as empty', (t) => {
  const grains = new Map<WireValue, WireValue>([
    ['os', 'Debian'],
    [1, 2],
  ]);
  const parsed = accepted(parsePillarLoad({ id: 'a/b', grains, pillar_override: 'x', ver: 2 }));
  t.like(parsed, { id: undefined, ver: undefined });
  t.is(canonical(parsed.grains ?? null), canonical({ os: 'Debian' }));
  t.is(canonical(parsed.pillar_override), canonical({}));
  t.false(parsePillarLoad({ id: 'a', saltenv: ['base'] }).ok);
});
