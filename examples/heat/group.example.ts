import type { Example } from '../example.ts';
import { installForExample, pluginNeeds, template, withCloud } from './setting.ts';

/** A group that grows and shrinks. The command of each member runs once. */
export const group: Example = {
  description: 'a ResourceGroup grows and shrinks; commands run for the members that changed',
  needs: pluginNeeds,
  run: (step) =>
    withCloud(async (heat, stage) => {
      await stage.startMinion('web-0');
      const calls = (): string => stage.calls.splice(0).sort().join('; ');
      const stack = await step('create a group of one member', async () => {
        const made = await heat.create(template('group'), { size: 1 });
        process.stdout.write(`  openstack stack show ${made.name} -c stack_status -c outputs\n`);
        return made;
      });
      await step(
        'the command of web-0 has run',
        async () => `${(await stack.end()).status}: ${calls()}`,
        (it) => it === 'CREATE_COMPLETE: web-0 write member',
      );
      await step(
        'add a member: only the command of web-1 runs',
        async () => `${(await stack.update(template('group'), { size: 2 })).status}: ${calls()}`,
        (it) => it === 'UPDATE_COMPLETE: web-1 write member',
      );
      await step(
        'remove a member: the command of web-1 is undone',
        async () => `${(await stack.update(template('group'), { size: 1 })).status}: ${calls()}`,
        (it) => it === 'UPDATE_COMPLETE: web-1 remove member',
      );
      await step(
        'delete the stack: the command of web-0 is undone',
        async () => {
          await stack.delete();
          return `${(await stack.end()).status}: ${calls()}`;
        },
        (it) => it === 'DELETE_COMPLETE: web-0 remove member',
      );
    }, installForExample),
};
