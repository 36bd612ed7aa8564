/** The state of jobs that `format_events` sends: its cost, and its contents. */
import test from 'ava';
import type { MasterEvent } from '#master';
import { FormattedEvents } from '#salt-api/formatted-events.ts';

const jid = '20260101000000000000';

function eventOf(what: string, data: MasterEvent['data']): MasterEvent {
  return { tag: `salt/job/${jid}/${what}`, data } as MasterEvent;
}

// Copying the minions of the job for each return would take several minutes.
test('the returns of a job with 20,000 minions are encoded in linear time', (t) => {
  const formatted = new FormattedEvents(64 * 1_048_576);
  const minions = Array.from({ length: 20_000 }, (_, index) => `web${index}`);
  formatted.encode([eventOf('new', { minions, fun: 'test.ping', tgt: '*' })]);
  const success = { return: true, retcode: 0, success: true };
  const [running, ...others] = formatted.encode(
    minions.slice(1).map((id) => eventOf(`ret/${id}`, success)),
  );
  t.deepEqual(others, []);
  t.true(running?.includes('"state": "running"') || running?.includes('"state":"running"'));
  const [failed] = formatted.encode([eventOf('ret/web0', { ...success, success: false })]);
  t.true(failed?.includes('running'));
  const [complete] = formatted.encode([eventOf('ret/web0', success)]);
  t.true(complete?.includes('complete'));
});
