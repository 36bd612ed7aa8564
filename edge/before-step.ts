/** Called before each change of a file, so that tests can interrupt it. */
export type BeforeStep = (step: string) => void;
