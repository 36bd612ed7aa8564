/** Call that the catalog permits for a deployment. */

import type { Parameters } from '#heat-bridge';

/** Call that the catalog permits. The policy is evaluated when the call runs. */
export interface DeploymentCall {
  /**
   * Kind of the catalog entry that permits the call. `command`: a command. `code` or `states`: an
   * entry of `deployments:`, which runs code or applies states.
   */
  readonly kind: 'code' | 'command' | 'states';
  readonly command: string;
  readonly params: Parameters;
}

/**
 * Permitted call of a deployment, or the reason why the deployment is rejected. The reason is shown
 * to the author of the template.
 */
export type ResolvedCall =
  | { readonly ok: true; readonly call: DeploymentCall }
  | { readonly ok: false; readonly reason: string };
