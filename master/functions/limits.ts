import { defineLimits } from '#runtime';

/** Limits for running calls of runners and wheel functions. */
export const functionLimits = defineLimits('functions', {
  runningCalls: {
    unit: 'running calls of runners, and of wheel functions',
    owner: 'user',
    perOwner: 1_000,
    total: 4_000,
    reserved: 1_000,
    effect: 'The call is rejected. Calls of the operator, services and minions are not limited.',
    code: 'ERR_LIMIT',
  },
  argumentBytes: {
    unit: 'bytes of arguments of these running calls',
    owner: 'user',
    perOwner: 134_217_728,
    total: 536_870_912,
    reserved: 134_217_728,
    effect: 'The call is rejected. Calls of the operator, services and minions are not limited.',
    code: 'ERR_LIMIT',
  },
});
