/** User-data of the machines of a compiled template, as expressions for Heat. */

import { Scalar } from 'yaml';
import { BridgeError } from '#heat-bridge';

export interface UserDataParts {
  /** Values that Heat determines, by key. */
  readonly values: Readonly<Record<string, unknown>>;
  /** User-data that the template already had, or `undefined`. */
  readonly existing: unknown;
  /** Expression for the user-data that enrols the machine. */
  readonly enrolment: object;
  readonly format?: 'cloud-init' | 'shell';
  readonly configDir?: string;
}

/**
 * User-data of one machine in the compiled template: either an additional resource, or an
 * expression (`text`).
 */
export interface HeatUserData {
  /**
   * Resource to add to the template. The machine refers to it with `get_resource` in `user_data`.
   */
  readonly resource?: object;
  readonly text?: object;
}

const placeholder = '$saltbridge_values';

/**
 * Combines the parts of a machine's user-data.
 * @throws BridgeError ERR_DATA_FORM if they cannot be combined
 */
export function userDataOf({
  values,
  existing,
  enrolment,
  format = 'cloud-init',
  configDir = '/etc/salt',
}: UserDataParts): HeatUserData {
  const hasValues = Object.keys(values).length > 0;
  if (!hasValues && existing === undefined) return { text: enrolment };
  const script = {
    str_replace: {
      template: blockText(valuesScript(configDir, format)),
      params: { [placeholder]: values },
    },
  };
  if (format === 'shell') {
    if (existing !== undefined) {
      const text =
        'user_data: not permitted with the format `shell`, because the enrolment script is the whole user-data';
      throw new BridgeError('ERR_DATA_FORM', text);
    }
    return { text: { list_join: ['\n', [script, enrolment]] } };
  }
  const parts = [
    ...(existing === undefined ? [] : [{ config: existing }]),
    ...(hasValues ? [{ config: script, type: 'text', subtype: 'cloud-boothook' }] : []),
    { config: enrolment, type: 'multipart' },
  ];
  return { resource: { type: 'OS::Heat::MultipartMime', properties: { parts } } };
}

function blockText(text: string): Scalar<string> {
  const scalar = new Scalar(text);
  scalar.type = Scalar.BLOCK_LITERAL;
  return scalar;
}

/**
 * Returns a script that writes the values to a file. Heat renders the values as one line of JSON.
 * Therefore they cannot contain the line that ends the here-document.
 */
function valuesScript(configDir: string, format: 'cloud-init' | 'shell'): string {
  if (!/^\/[A-Za-z0-9._/-]+$/.test(configDir)) {
    throw new BridgeError('ERR_DATA_FORM', 'configDir: must be an absolute path without blanks');
  }
  const head = format === 'cloud-init' ? '#cloud-boothook\n#!/bin/sh' : '#!/bin/sh';
  return `${head}
# Values of this stack that Heat has resolved.
(
  umask 077
  mkdir -p ${configDir}/saltbridge
  cat >${configDir}/saltbridge/values.json <<'SALTBRIDGE_END_OF_VALUES'
${placeholder}
SALTBRIDGE_END_OF_VALUES
)
`;
}
