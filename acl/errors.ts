import { type ErrorEntry, SaltbridgeError, type ValuePath } from '#runtime';

/** A rule that cannot be used. The message names the rule and the field. */
export class PolicyError extends SaltbridgeError<PolicyErrorCode> {
  /** Name of the rule. */
  readonly rule: string;
  /** Path of the field, for example `resource.tag`. Empty for the whole rule. */
  readonly field: string;
  /** Description of the mistake, without rule and field. */
  readonly problem: string;
  /**
   * Keys that `field` consists of.
   * @internal
   */
  declare readonly path: ValuePath;

  constructor(
    code: PolicyErrorCode,
    where: {
      readonly rule: string;
      readonly field: string;
      readonly path?: readonly (string | number)[];
    },
    problem: string,
    options?: ErrorOptions,
  ) {
    const field = where.field === '' ? '' : `${where.field}: `;
    super(code, `${where.rule}: ${field}${problem}`, options);
    this.rule = where.rule;
    this.field = where.field;
    this.problem = problem;
    const path = where.path ?? where.field.split('.').filter((it) => it !== '');
    // The path is not enumerable, because logs already contain `field`.
    Object.defineProperty(this, 'path', { value: path, enumerable: false });
  }
}

/** Meaning and remedy of every {@link PolicyErrorCode}. */
export const policyErrors = {
  ERR_POLICY_FORM: {
    meaning: 'A rule has an unknown field, lacks a required one, or has a field of the wrong type.',
    action: 'Correct the field that the message names.',
  },
  ERR_POLICY_PATTERN: {
    meaning: 'A pattern, target, schema, rate or date in a rule is invalid or too broad.',
    action: 'Correct the field as the message describes.',
  },
  ERR_POLICY_UNTRUSTED: {
    meaning: 'A rule would grant a right by grains alone, although a minion can claim any grain.',
    action: 'Name minion, pillar or nodegroup in addition to the grain.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Reason why a policy was rejected. {@link policyErrors} explains each code. */
export type PolicyErrorCode = keyof typeof policyErrors;
