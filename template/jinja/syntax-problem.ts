import { Raised } from '../python/raise.ts';

/** A syntax error and its line. */
export class SyntaxProblem extends Raised {
  static {
    SyntaxProblem.prototype.name = SyntaxProblem.name;
  }

  readonly line: number;

  constructor(message: string, line: number, kind = 'TemplateSyntaxError') {
    super(kind, message);
    this.line = line;
  }
}
