import type { Minion } from '#minion-protocol';
import type { Example } from '../example.ts';
import type { StackState } from './cloud.ts';
import { cloudNeed, template, withCloud } from './setting.ts';
import type { Stage } from './stage.ts';

/** A wait condition that two minions complete with signals. */
export const waitCondition: Example = {
  description: 'two minions complete a wait condition of Heat',
  needs: () => [cloudNeed()],
  run: (step) =>
    withCloud(async (heat, stage) => {
      const stack = await step('create a stack with a handle and a wait condition', async () => {
        const made = await heat.create(template('wait-condition'));
        process.stdout.write(`  openstack stack show ${made.name} -c stack_status -c outputs\n`);
        return made;
      });
      // Everyone who has these values can send signals, so they are not printed.
      const isMade = ({ outputs }: StackState): boolean =>
        String(outputs.signal).includes('alarm_url');
      const { outputs } = await stack.until('the credentials of the handle', isMade);
      await step('register the handle at the bridge', async () => {
        const minions = ['web-1', 'web-2'];
        await stage.bridge.handles.add({ alias: 'ready', minions, signal: outputs.signal });
      });
      await step('both minions fire the event heat/ready', () => fireAll(stage));
      await step(
        'the stack is complete, with the data of both signals',
        async () => {
          const { status, outputs: all } = await stack.end();
          return { status, data: JSON.parse(String(all.data)) };
        },
        ({ status, data }) =>
          status === 'CREATE_COMPLETE' && Object.keys(data).sort().join() === 'web-1,web-2',
      );
      await step('delete the stack', async () => {
        await stack.delete();
        return (await stack.end()).status;
      });
    }),
};

async function fireAll({ minions }: Stage): Promise<void> {
  const fire = (minion: Minion): Promise<string | undefined> =>
    minion.fire('heat/ready', { reason: 'booted', data: 'ready' });
  await Promise.all(minions.map(fire));
}
