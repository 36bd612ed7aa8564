/** Rights of the deployments of a stack, after the caller that registered it has changed. */

import test from 'ava';
import { allow, mayCallCommand, type Subject } from '#acl';
import { StackRegistry } from '#guests/deployments/stacks.ts';
import { policyOf } from '../../helpers/policies.ts';
import { memoryState } from '../signals/open-signals.ts';

const domain = { id: 'd', name: 'Default' };
const subject: Subject = {
  kind: 'project',
  project: { id: 'p1', name: 'databases', domain },
  user: { id: 'u1', name: 'eve', domain },
  roles: ['admin'],
};

test('a stack keeps the roles of its registration, and the current rules decide', async (t) => {
  const state = memoryState();
  const open = (): Promise<StackRegistry> =>
    StackRegistry.open({ state, isListed: () => true, now: Date.now });
  const registry = await open();
  const collect = { request: { metadata_url: 'https://metadata.example/' } };
  const server = { server: 'x', minion: 'web1', collect };
  await registry.add({ name: 's', servers: [server] }, { owner: 'project:p1', subject }, false);
  const [stack] = (await open()).all;
  if (stack === undefined) return t.fail();
  t.deepEqual(stack.subject, subject);
  const ruleFor = (role: string) =>
    allow('one', {
      subject: { project: 'databases', role },
      action: 'command',
      resource: { fun: 'demo.*' },
    });
  t.true(mayCallCommand(stack.subject, 'demo.go', policyOf([ruleFor('admin')])));
  // The operator ends the rights of a stack by its rules, or removes the stack.
  t.false(mayCallCommand(stack.subject, 'demo.go', policyOf([ruleFor('member')])));
  await registry.remove('s', 'project:p1');
  t.deepEqual((await open()).all, []);
});
