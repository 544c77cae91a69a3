// A handler in RunPod's form: it gets a job and returns the output. `error`, or a thrown error, fails the job.
export default function handler({ input }) {
  if (typeof input.text !== 'string') return { error: 'input.text is missing' };
  const words = input.text.toLowerCase().match(/[a-z]+/g) ?? [];
  return { words: words.length, unique: new Set(words).size };
}
