/** Handles for all machines that are enrolled for a project. */

import test from 'ava';
import { allow } from '#acl';
import type { Minion } from '#minion-protocol';
import { within } from '../../helpers/deadline.ts';
import { always, type Recorded, recorderFor } from '../signals/recorder.ts';
import { fingerOf, type PairName, type Stage, startStage } from './stage.ts';

/** Enrols a machine by a claim and starts its minion. */
async function enrol(stage: Stage, id: string, pair: PairName, project: string): Promise<Minion> {
  const { ticket } = await stage.bridge.enroll.create({ id, project });
  const { status } = await stage.post('claim', { ticket, id, fingerprint: fingerOf(pair) });
  if (status !== 200) throw new Error(`the claim of ${id} was answered ${status}`);
  const minion = stage.minion(id, pair);
  await within(`the sign-in of ${id}`, minion.start());
  return minion;
}

const handles = allow('handles', {
  subject: { minion: '*' },
  action: 'signal',
  resource: { tag: 'heat/*' },
});

const sendersOf = (requests: readonly Recorded[]): string[] =>
  requests.map(({ body }) => JSON.parse(body).id);

test('a handle of a project serves its enrolled machines, as long as they are enrolled', async (t) => {
  const service = await recorderFor(t, always(200, 'null'));
  const stage = await startStage(
    t,
    {},
    {
      config: {
        bridge: { handles: { endpoints: [service.origin], same_id_wait: 0 } },
        acl: {
          signals: [],
          rules: [handles],
          mode: 'enforce',
          learnActions: [],
          recordData: false,
        },
      },
    },
  );
  const first = await enrol(stage, 'web-1', 'minion', 'p1');
  const stranger = await enrol(stage, 'db-1', 'other_minion', 'p2');
  const signal = { endpoint: `${service.origin}/signal`, token: 'tOken' };
  await stage.bridge.handles.add({ alias: 'ready', projects: ['p1'], signal });

  await stranger.fire('heat/ready', { data: 'of another project' });
  await first.fire('heat/ready', { data: 1 });
  t.deepEqual(sendersOf(await service.heard(1)), ['web-1']);
  // Machines that are enrolled later may use the handle as well.
  const later = await enrol(stage, 'web-2', 'minion2', 'p1');
  await later.fire('heat/ready', { data: 2 });
  t.deepEqual(sendersOf(await service.heard(2)), ['web-1', 'web-2']);

  // The machine is enrolled again for another project, and is then a machine of that project.
  await stage.bridge.enroll.retire({ id: 'web-1' });
  await first.stop();
  const moved = await enrol(stage, 'web-1', 'minion', 'p2');
  await moved.fire('heat/ready', { data: 3 });
  await later.fire('heat/ready', { data: 4 });
  t.deepEqual(sendersOf(await service.heard(3)), ['web-1', 'web-2', 'web-2']);
  t.is(service.requests.length, 3);
});
