/** Inline SLS with its inputs. No function of Salt's takes pillar beside it, so they are put before it. */

import { BridgeError, type Parameters } from '#heat-bridge';

/**
 * SLS whose `pillar` has the inputs as well. They are in base64, which is text to Jinja and nothing
 * else.
 * @throws BridgeError ERR_COMMAND_PARAMETERS for inputs of SLS that names its renderers itself
 */
export function slsWithInputs(sls: string, inputs: Parameters): string {
  if (Object.keys(inputs).length === 0) return sls;
  if (sls.startsWith('#!')) {
    const message = 'group salt: inline SLS with a line of renderers (#!…) takes no inputs';
    throw new BridgeError('ERR_COMMAND_PARAMETERS', message);
  }
  const encoded = Buffer.from(JSON.stringify(inputs)).toString('base64');
  return `{%- set pillar = dict(pillar, **('${encoded}' | base64_decode | load_json)) -%}\n${sls}`;
}
