import { type Call, type Explanation, explain, type Policy, reachOf } from '#acl';
import type { ExplainRequest } from '../api/index.ts';
import { parseArguments } from '../arguments/index.ts';
import { callOf, everyone, type TargetResolver } from '../jobs/index.ts';

export interface ExplainDeps {
  readonly policy: () => Policy;
  readonly targets: Pick<TargetResolver, 'resolveWithin'>;
}

/**
 * Returns the current policy's decision about a hypothetical request, and the reason
 * (`acl.explain`).
 * @throws MasterError ERR_BAD_TGT
 */
export async function explainRequest(
  { policy, targets }: ExplainDeps,
  request: ExplainRequest,
): Promise<Explanation> {
  const { subject, action, resource: text, target } = request;
  /**
   * Returns the minions for which the policy is evaluated: the targeted minions on which the
   * subject has rights. If the subject has rights on none of them, returns all targeted minions, so
   * that the decision is a denial. Returns `{}` if the request has no target.
   */
  const meant = async (
    calls: readonly Call[],
  ): Promise<{ readonly minions?: readonly string[] }> => {
    if (target === undefined || (action !== 'publish' && action !== 'command')) return {};
    const reach = reachOf({ subject, action, calls }, policy());
    const { minions: own } = await targets.resolveWithin(target, reach);
    if (own.length > 0) return { minions: own };
    const { minions } = await targets.resolveWithin(target, everyone);
    return { minions };
  };
  switch (action) {
    case 'signal': {
      const { data, bytes = 0 } = request;
      const resource = { tag: text, data, bytes: () => bytes, wasPublishedToSubject: () => false };
      return explain({ subject, action, resource }, policy());
    }
    case 'publish': {
      const calls = text.split(',').map((fun) => toCall(fun, request));
      return explain({ subject, action, resource: { calls, ...(await meant(calls)) } }, policy());
    }
    case 'command': {
      const call = toCall(text, request);
      return explain({ subject, action, resource: { call, ...(await meant([call])) } }, policy());
    }
    case 'mine': {
      const owner = request.owner === undefined ? {} : { owner: request.owner };
      return explain({ subject, action, resource: { fun: text, ...owner } }, policy());
    }
    case 'file-send':
      return explain({ subject, action, resource: { path: text } }, policy());
    case 'pillar':
      return explain({ subject, action, resource: { environment: text } }, policy());
    case 'key':
      return explain({ subject, action, resource: { operation: text } }, policy());
    case 'subscribe':
      return explain({ subject, action, resource: { tag: text } }, policy());
    default:
      return explain({ subject, action, resource: { call: toCall(text, request) } }, policy());
  }
}

function toCall(fun: string, { arg = [] }: ExplainRequest): Call {
  return callOf({ fun, ...parseArguments(arg) });
}
