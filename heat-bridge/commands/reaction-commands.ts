/** Runs named commands as actions of reactions. */

import type { OpenExtension, ReactionResult } from '#master';
import { inTime } from '#runtime';
import { BridgeError, type BridgeErrorCode } from '../errors.ts';
import type { CommandOutcome } from './command-request.ts';
import type { CommandRunner } from './command-runner.ts';
import type { Parameters } from './parameters.ts';

/**
 * Creates the function that runs commands for reactions. The job id of a reaction serves as the
 * idempotency key, so a reaction that is repeated after a crash continues the same run.
 */
export function createReactionCommands(
  runner: Pick<CommandRunner, 'run'>,
): NonNullable<OpenExtension['commands']> {
  return {
    run: async ({ jid, caller, command, target, params }, deadline) => {
      try {
        // The command's schema validates the parameters.
        const request = { target, params: params as Parameters, caller, idempotencyKey: jid };
        const { outcome } = await runner.run(command, request, { jid });
        const ended = await inTime(outcome, deadline);
        return ended === undefined ? { outcome: 'timeout' } : reactionResultOf(ended);
      } catch (error) {
        if (error instanceof BridgeError) return reactionRefusalOf(error);
        throw error;
      }
    },
  };
}

function reactionResultOf({ status, results }: CommandOutcome): ReactionResult {
  switch (status) {
    case 'succeeded':
    case 'timeout':
    case 'interrupted':
      return { outcome: status };
    case 'cancelled':
      return { outcome: 'failed', reason: 'the run was cancelled' };
    case 'failed': {
      const failed = results.filter(({ state }) => state !== 'succeeded').length;
      return {
        outcome: 'failed',
        reason: `${failed} of ${results.length} minions did not succeed`,
      };
    }
  }
}

const reactionOutcomes: Partial<Readonly<Record<BridgeErrorCode, ReactionResult['outcome']>>> = {
  ERR_COMMAND_BUSY: 'failed',
  ERR_COMMAND_DENIED: 'denied',
  ERR_COMMAND_TARGET: 'nobody',
};

function reactionRefusalOf({ code, message }: BridgeError): ReactionResult {
  return { outcome: reactionOutcomes[code] ?? 'unusable', reason: message };
}
