import type { BuiltInRule } from './types.ts';

type Fun = string | readonly string[];

function isSameFun(published: Fun, returned: Fun): boolean {
  if (published === returned) return true;
  const [left, right] = [[published].flat(), [returned].flat()];
  return left.length === right.length && left.every((fun, index) => fun === right[index]);
}

export const returnRules: readonly BuiltInRule<'return'>[] = [
  {
    name: 'own-resource',
    effect: 'deny',
    judge: ({ subject, resource: { managed } }) =>
      managed === undefined || managed.isOwn
        ? undefined
        : `${subject.id} has not registered the resource ${managed.id}`,
  },
  {
    name: 'self-made-job',
    effect: 'allow',
    judge: ({ resource }) =>
      resource.jid === 'req' ? 'a minion may report a job that it started itself' : undefined,
  },
  {
    name: 'known-job',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.job === undefined ? `no job ${resource.jid} was published` : undefined,
  },
  {
    name: 'addressee-only',
    effect: 'deny',
    judge: ({ subject, resource }) =>
      resource.job?.minions.has(subject.id)
        ? undefined
        : `job ${resource.jid} was not published to ${subject.id}`,
  },
  {
    name: 'published-function',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.job !== undefined && !isSameFun(resource.job.fun, resource.fun)
        ? `job ${resource.jid} was published for another function`
        : undefined,
  },
  {
    name: 'published-to-sender',
    effect: 'allow',
    judge: () => 'the job was published to this minion',
  },
];
